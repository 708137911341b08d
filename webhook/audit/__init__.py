"""Audit logs: what the API server itself says of each webhook's part in a write."""
