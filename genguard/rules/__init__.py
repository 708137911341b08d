"""One rule a file: what genguard changes in an object, and only that."""
