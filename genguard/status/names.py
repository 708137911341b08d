"""Loads the names that the rules of status and the views of other tools know, by table."""

from typing import Final

from genguard.shipped import shipped

NAMES: Final = shipped("genguard.status", "names.yaml", dict[str, dict[str, str]])
"""By table: of each name its source or meaning, or what a tool answers; names.yaml says which."""
