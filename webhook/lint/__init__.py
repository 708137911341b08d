"""Webhook configurations looked at for what breaks clusters."""
