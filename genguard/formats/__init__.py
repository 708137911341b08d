"""Formats of text: YAML as kubectl reads it, JSON however it is laid out, lines, JSONPath."""
