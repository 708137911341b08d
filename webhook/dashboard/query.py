"""What is asked for in a URL: checked, and written back into the links of a page."""

from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import urlencode

LONGEST: Final = 300
"""Characters of a value: no name of Kubernetes is longer."""


class BadQueryError(ValueError):
    """A query that cannot be answered; the message says what is wrong with it."""


def known_only(query: Mapping[str, str], names: Iterable[str]) -> None:
    """Raise BadQueryError for a parameter that is none of these, or a value that is too long."""
    known = sorted(names)
    if unknown := sorted(set(query) - set(known)):
        raise BadQueryError(f"unknown parameter {unknown[0]!r}; known are {', '.join(known)}")
    for name, value in query.items():
        if len(value) > LONGEST:
            raise BadQueryError(f"{name} must have at most {LONGEST} characters")


def one_of(query: Mapping[str, str], name: str, choices: Iterable[str], default: str = "") -> str:
    """A parameter that is one of some, or absent or empty."""
    found = query.get(name) or default
    if found and found not in (known := tuple(choices)):
        raise BadQueryError(f"{name} must be one of {', '.join(known)}")
    return found


def number(query: Mapping[str, str], name: str, default: int, most: int) -> int:
    """A parameter that is a number from 1 to `most`."""
    text = query.get(name) or str(default)
    if not text.isascii() or not text.isdecimal() or not 0 < int(text[:9]) <= most:
        raise BadQueryError(f"{name} must be a number from 1 to {most}")
    return int(text)


def link(path: str, query: Mapping[str, object], **changed: object) -> str:
    """The URL of a page, with what is empty left out."""
    values = {name: value for name, value in {**query, **changed}.items() if value}
    return f"{path}?{urlencode(values)}" if values else path
