"""Metrics and logs: facts about reviews, never their contents."""
