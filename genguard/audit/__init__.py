"""Audit logs: find loops and name their webhooks from the API server's own records."""
