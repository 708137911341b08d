"""Stands before uvloop on the path of a process that shall not have it."""

raise ImportError("uvloop is hidden by tests/event_loops")
