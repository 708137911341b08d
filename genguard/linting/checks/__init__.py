"""One lint check in each module, which genguard/linting/lint.py finds by the name CHECK."""
