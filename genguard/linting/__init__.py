"""Checks webhook configurations for settings that break clusters."""
