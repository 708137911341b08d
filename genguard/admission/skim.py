"""The envelope of a review whose object is nested too deep to decode.

The API server accepts objects of 10,000 levels (Go's encoding/json and apimachinery's
pkg/util/json stop there); the JSON decoder here gives up near 1,000. Such a review must still be
allowed, which takes its `uid` and `apiVersion`. This scan keeps no stack, so depth costs nothing.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from genguard.admission.decode import (
    InvalidFieldError,
    NotJSONError,
    TooDeepError,
    UnsupportedVersionError,
)
from genguard.admission.review import VERSIONS

_REQUEST_DEPTH: Final = 2
MAX_DEPTH: Final = 10_000 + _REQUEST_DEPTH
MAX_TOKENS: Final = 1_000_000
"""Bounds the time; 3 MiB of an object this deep have no room for as many in practice."""

# A string that never ends matches too: to look for its end from each quote in it is quadratic.
_TOKEN: Final = re.compile(rb'"((?:[^"\\]|\\.)*+)("?+)(\s*+:)?|[{}\[\]]', re.DOTALL)
_OPENING: Final = frozenset(b"{[")


class Envelope(NamedTuple):
    """The part of a review that an answer needs."""

    api_version: str
    uid: str


def skim(body: bytes) -> Envelope:
    """Find `apiVersion` and `request.uid`; raises UndecodableReviewError without them."""
    found = dict(_shallow_strings(body))
    for path in ("apiVersion", "request.uid"):
        if not found.get(path):
            raise InvalidFieldError("required", field=path)
    if found["apiVersion"] not in VERSIONS:
        raise UnsupportedVersionError("expected admission.k8s.io/v1", field="apiVersion")
    return Envelope(found["apiVersion"], found["request.uid"])


def _shallow_strings(body: bytes) -> Iterator[tuple[str, str]]:
    """Field path and value of each string in the review itself and in its request."""
    keys = {1: "", _REQUEST_DEPTH: ""}
    depth = 0
    for count, match in enumerate(_TOKEN.finditer(body)):
        if count > MAX_TOKENS:
            raise TooDeepError(f"nested deep, and more than {MAX_TOKENS} tokens: not analysed")
        text, end, colon = match.groups()
        if text is None:
            depth += 1 if body[match.start()] in _OPENING else -1
            if depth > MAX_DEPTH:
                raise TooDeepError(f"nested deeper than {MAX_DEPTH} levels, which no server sends")
        elif not end:
            raise NotJSONError("a string does not end")
        elif depth in keys and colon:
            keys[depth] = _plain(text)
        elif depth == 1:
            yield keys[1], _plain(text)
        elif depth == _REQUEST_DEPTH and keys[1] == "request":
            yield f"request.{keys[depth]}", _plain(text)
    if depth != 0:
        raise NotJSONError("brackets do not match")


def _plain(text: bytes) -> str:
    """A string without escapes; the names and values that are looked for have none."""
    return "" if b"\\" in text else text.decode("utf-8", errors="replace")
