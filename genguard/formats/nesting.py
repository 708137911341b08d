"""JSON that is nested too deep for the decoder, with what is too deep left out.

The API server stores objects of 10,000 levels (metadata.managedFields too); the decoder here gives
up near 1,000, for a whole list because of one object in it. This scan keeps no stack.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

DEEPEST: Final = 500
"""Levels that are kept: the decoder's limit includes the calls that led to it."""
_ITEM_LEVEL: Final = 3
"""Of the items in a list: {"items": [{...}]}."""
# A string that never ends matches too: to look for its end from each quote in it is quadratic.
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?+|[{}\[\]]', re.DOTALL)
_OPENING: Final = frozenset(b"{[")
_QUOTE: Final = ord('"')


class UnreadableObject(NamedTuple):
    """Stands in a document for the status of an object that cannot be decoded, and says why."""

    why: str


TOO_DEEP: Final = UnreadableObject(f"the object is nested deeper than {DEEPEST} levels")
OUT_OF_RANGE: Final = UnreadableObject("the object has a value that is out of range")


def is_unreadable(document: Mapping[str, Any]) -> bool:
    """Whether a document stands for an object that cannot be decoded."""
    return isinstance(document.get("status"), UnreadableObject)


class CutJSON(NamedTuple):
    """JSON with null in the place of each value that was nested too deep.

    items  the indexes of the items, of a list, that have lost a value
    """

    text: bytes
    items: frozenset[int]


def cut_deep(text: bytes) -> CutJSON:
    """Put null in the place of what is nested deeper than DEEPEST levels.

    It takes a second for 10 MB of brackets alone. JSON that is broken stays broken.
    """
    kept: list[bytes] = []
    cut: set[int] = set()
    depth = start = 0
    item = -1
    for match in _TOKEN.finditer(text):
        mark = text[match.start()]
        if mark == _QUOTE:
            continue
        if mark in _OPENING:
            depth += 1
            if depth == _ITEM_LEVEL:
                item += 1
            if depth == DEEPEST + 1:
                kept += (text[start : match.start()], b"null")
                cut.add(item)
        else:
            if depth == DEEPEST + 1:
                start = match.end()
            depth -= 1
    kept.append(text[start:])
    return CutJSON(b"".join(kept), frozenset(cut))


def decode_cut(text: bytes | msgspec.Raw, kind: Any = Any) -> Any:
    """Decode JSON as `kind`; what is nested too deep is null. Raises msgspec.MsgspecError."""
    try:
        return msgspec.json.decode(text, type=kind)
    except RecursionError:
        return msgspec.json.decode(cut_deep(bytes(text)).text, type=kind)
