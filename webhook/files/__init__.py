"""Files that are given on the command line, and files that only their owner may read."""
