"""Replicas that share a real Valkey or Redis."""
