"""Alerts and runbooks, held against the real Prometheus and Alertmanager."""
