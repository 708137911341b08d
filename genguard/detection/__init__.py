"""Finds loops from the content of writes: what was requested, by whom, and what was stored."""
