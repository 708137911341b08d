"""Loads the names that the rules of status and the views of other tools know, by table."""

from importlib import resources
from typing import Final

import msgspec

from genguard.formats.documents import load_document

NAMES: Final = msgspec.convert(
    load_document(resources.files("genguard.status").joinpath("names.yaml").read_bytes()),
    dict[str, dict[str, str]],
)
"""By table: of each name its source or meaning, or what a tool answers; names.yaml says which."""
