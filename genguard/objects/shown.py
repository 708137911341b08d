"""Text that others wrote, as a terminal may show it: nothing in it moves the cursor.

Escaped is what str.isprintable refuses: controls (C0 and C1), overrides of direction, line and
paragraph separators, characters without a form.
"""

import json
import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

_CREDENTIALS: Final = re.compile(r"//.*@", re.DOTALL)
"""As far as the last @: a password that nobody escaped may hold any character."""
_BEYOND_ASCII: Final = re.compile(r"[^\x00-\x7e]")

_NAMED: Final = 3


def printable(text: str) -> str:
    """The text with whatever could forge a row or move the cursor escaped, as in Python."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def without_credentials(url: str) -> str:
    """The URL without user and password, also where it is none that can be split."""
    return _CREDENTIALS.sub("//", url)


def listed(names: Sequence[str], most: int, word: str = "and") -> str:
    """At least one name as in a sentence: `a`, `a and b`; of more than `most`, how many."""
    left = len(names) - most
    *first, last = names if left <= 0 else (*names[:most], f"{left} more")
    return f"{', '.join(first)} {word} {last}" if first else last


def few(names: Sequence[str]) -> str:
    """The first three names, and how many others there are: `a, b, c and 2 more`."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"


def json_line(value: Any) -> str:
    r"""The value as JSON of one line; characters that are not printable are written as \u009b.

    JSON itself escapes the controls of ASCII.
    """
    text = msgspec.json.encode(value).decode()
    return text if text.isprintable() else _BEYOND_ASCII.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    character = found[0]
    return character if character.isprintable() else json.dumps(character)[1:-1]
