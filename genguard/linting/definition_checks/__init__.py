"""One check of custom resources a module, which linting/lint.py finds by the name CHECK."""
