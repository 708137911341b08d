"""One lint check in each module, which webhook/lint/lint.py finds by the name CHECK."""
