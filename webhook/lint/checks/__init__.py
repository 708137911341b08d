"""One lint check in each module. webhook/lint/lint.py finds them by the name CHECK."""
