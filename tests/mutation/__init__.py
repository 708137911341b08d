"""Faults put into the code one at a time: the tests must notice, or the list says why not."""
