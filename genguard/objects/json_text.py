"""Where a JSON value ends that goes on over several lines, or ends before its line does.

Only brackets and quotes are looked at; whether it is JSON is for a decoder to say.
"""

import re
from itertools import islice
from typing import Final

from genguard.objects.lines import Lines, is_separator

_STRING: Final = re.compile(rb'"[^"\\\r\n]*(?:\\.[^"\\\r\n]*)*"')
_TOKEN: Final = re.compile(_STRING.pattern + rb"|[][{}]")
_NOT_STRUCTURE: Final = bytes(set(range(256)) - set(b'[]{}"'))
_OPENED_BY: Final = {ord("}"): ord("{"), ord("]"): ord("[")}
_DEEPEST: Final = 200
"""No object goes nearly as deep; without a limit, every cut line would be held to the end."""


class NotWholeError(Exception):
    """The value is cut short, or its brackets do not fit."""


def cut_value(source: Lines, line: bytes) -> bytes:
    """The value that begins with `line`, the last that came of `source`; the rest is given back.

    Raises NotWholeError. Then `source` goes on with the next line that begins like a document:
    of a file with an object a line, one that was cut short takes no other along.
    """
    held: list[bytes] = []
    opened = bytearray()
    before = b""
    while True:
        held.append(line)
        if len(held) > 1 and not _goes_on(line, before, opened):
            break
        end = _end(line, opened)
        if end is None:
            break
        if end:
            if line[end:].strip():
                source.give_back([line[end:]])
            return b"".join([*held[:-1], line[:end]])
        before = line.rstrip() or before
        following = next(source, None)
        if following is None:
            break
        line = following
    for index, one in enumerate(held[1:], start=1):
        if _begins(one):
            source.give_back(held[index:])
            raise NotWholeError
    skip_document(source)
    raise NotWholeError


def skip_document(source: Lines) -> None:
    """Go on with the next line that begins like a document."""
    for line in source:
        if _begins(line):
            source.give_back([line])
            return


def _goes_on(line: bytes, before: bytes, opened: bytearray) -> bool:
    """Whether a line may be part of the open value; a brace may only where a value may stand."""
    if is_separator(line):
        return False
    if not line.startswith(b"{"):
        return True
    last = before[-1:]
    return last == b":" or (last in {b",", b"["} and opened[-1:] == b"[")


def _end(line: bytes, opened: bytearray) -> int | None:
    """Where the value ends in this line; 0: later; None: never. Keeps account of what is open."""
    structure = _STRING.sub(b"", line).translate(None, _NOT_STRUCTURE)
    for index, sign in enumerate(structure):
        if sign in b"[{":
            opened.append(sign)
        elif opened.pop() != _OPENED_BY.get(sign):
            return None
        if not opened:
            brackets = (one.end() for one in _TOKEN.finditer(line) if one[0] in b"[]{}")
            return next(islice(brackets, index, None))
    return None if len(opened) > _DEEPEST else 0


def _begins(line: bytes) -> bool:
    return line.startswith(b"{") or is_separator(line)
