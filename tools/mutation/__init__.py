"""Puts faults into the code one at a time and counts which of them the unit tests notice."""
