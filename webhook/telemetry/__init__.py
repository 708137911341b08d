"""Metrics and logs: numbers and names of reviews, never their contents."""
