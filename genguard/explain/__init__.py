"""Explains what genguard knows of a kind, from the same tables that the engine reads."""
