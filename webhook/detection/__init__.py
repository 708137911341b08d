"""Loops found by content: what was written, by whom, and what became of it on the way."""
