"""One check of custom resources a module, which webhook/lint/lint.py finds by the name CHECK."""
