"""Split the documents of an audit log into events, and say why one of them is left out.

A log may be hostile: an event that cannot be read, or is too deep or too much, ends none of those
behind it, and a list is never decoded as a whole.
"""

import re
from collections.abc import Callable, Iterator
from traceback import extract_tb
from typing import Final

import msgspec

API_VERSION: Final = "audit.k8s.io/v1"
EVENT: Final = "Event"
KINDS: Final = frozenset({EVENT, "EventList"})
MOST_ITEMS: Final = 100_000
"""Of one list. An API server puts 400 into one, unless a flag of it says otherwise."""
UNFINISHED: Final = "not finished"
"""The reason for the last line of a log that the API server still writes."""
TOO_DEEP: Final = "nested too deep"
FAULT: Final = "genguard cannot judge it"
"""Begins the reason where it is no fault of the document."""

_BEGIN: Final = re.compile(
    rb'\s*\{\s*"kind"\s*:\s*"(Event|EventList)"\s*,\s*"apiVersion"\s*:\s*"audit\.k8s\.io/v1"'
)
"""As the API server writes it: known also where the rest is cut or cannot be decoded."""
# A string that never ends matches too: to look for its end from each quote in it is quadratic.
_TOKEN: Final = re.compile(rb'"((?:[^"\\]|\\.)*+)"?+(\s*+:)?|[{}\[\],]', re.DOTALL)
_OPENING: Final = b"[{"
_CLOSING: Final = b"]}"
_IN_OBJECT: Final = 1
_QUOTED_VALUE: Final = re.compile(r"Invalid enum value .*?(?=( - at `[^`]*`)?\Z)", re.DOTALL)


class _Head(msgspec.Struct, rename="camel"):
    # Of no other type: what is decoded of a list takes 25 times as much memory as its text.
    kind: str = ""
    api_version: str = ""


_heads: Final = msgspec.json.Decoder(_Head)


def audit_kind(document: bytes) -> str:
    """Return Event or EventList, and "" for a document that is not of an audit log.

    Raises msgspec.MsgspecError, UnicodeDecodeError and RecursionError for a document that cannot
    be read and does not begin as the API server's do.
    """
    if found := _BEGIN.match(document):
        return found[1].decode()
    head = _heads.decode(document)
    return head.kind if head.api_version == API_VERSION and head.kind in KINDS else ""


def see_events(document: bytes, kind: str, see: Callable[[bytes], None]) -> Iterator[str]:
    """Give the text of each event of a document to `see`; yield why an event was left out.

    Raises msgspec.ValidationError for a list that is none.
    """
    for number, text in enumerate(_split(document, kind), start=1):
        try:
            see(text)
        except Exception as error:  # noqa: BLE001 - one bad event must not end the others
            if is_unfinished(document, error):
                yield UNFINISHED
            else:
                item = "" if kind == EVENT else f"item {number}: "
                yield f"{item}{why_unreadable(error)}"


def is_unfinished(line: bytes, error: Exception) -> bool:
    """Whether a line has no end, because it is the last of a file that is still written."""
    is_cut = isinstance(error, msgspec.DecodeError) and "truncated" in str(error)
    return is_cut and not line.endswith(b"\n")


def why_unreadable(error: Exception) -> str:
    """Say why a document or an event is left out; nothing of its content is repeated."""
    if isinstance(error, RecursionError):
        return TOO_DEEP
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8"
    if isinstance(error, msgspec.MsgspecError):
        return _QUOTED_VALUE.sub("unknown value", str(error))
    return f"{FAULT}, please report it: {type(error).__name__} {_place_of(error)}"


def _place_of(error: Exception) -> str:
    if isinstance(error, ExceptionGroup):
        return _place_of(error.exceptions[0])
    *_, frame = extract_tb(error.__traceback__)
    return f"in {frame.name}, line {frame.lineno}"


def _split(document: bytes, kind: str) -> Iterator[bytes]:
    """Yield the document itself, or each item of a list; the last is cut where the list is."""
    if kind == EVENT:
        yield document
        return
    for number, text in enumerate(_items(document)):
        if number == MOST_ITEMS:
            raise msgspec.ValidationError(f"more than {MOST_ITEMS:,} events - at `$.items`")
        yield text


def _items(document: bytes) -> Iterator[bytes]:
    depth, begin = 0, _begin_of_items(document)
    for match in _TOKEN.finditer(document, begin):
        mark = document[match.start() : match.start() + 1]
        if mark in _OPENING:
            depth += 1
        elif depth and mark in _CLOSING:
            depth -= 1
        elif not depth and mark != b'"':  # a comma, or the end of the list
            text, begin = document[begin : match.start()], match.end()
            if mark == b"," or text.strip():
                yield text
            if mark != b",":
                return
    yield document[begin:]


def _begin_of_items(document: bytes) -> int:
    """Return where the first item is; raises msgspec.ValidationError without a list."""
    depth, key = 0, b""
    for match in _TOKEN.finditer(document):
        mark = document[match.start() : match.start() + 1]
        if mark == b'"':
            key = match[1] if depth == _IN_OBJECT and match[2] else key
        elif mark == b"[" and depth == _IN_OBJECT and key == b"items":
            return match.end()
        elif mark != b",":
            depth += 1 if mark in _OPENING else -1
    raise msgspec.ValidationError("Expected `array` - at `$.items`")
