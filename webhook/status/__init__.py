"""Is this object ready, settled, healthy, and at which generation? For any kind."""
