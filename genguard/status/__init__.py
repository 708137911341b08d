"""Tells for an object of any kind whether it is ready, settled and healthy, and what blocks."""
