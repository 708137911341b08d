"""Objects in files as people have them: YAML documents, JSON, Lists, one a line or end to end.

What cannot be read is told with its place and never hides what comes after it. A line that holds a
whole JSON object costs no more memory than itself; any other document is held until it ends. A
document with a line that is too long is left out.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec
import yaml

from genguard.objects.json_text import NotWholeError, cut_value, skip_document
from genguard.objects.kube_yaml import load_document
from genguard.objects.lines import Line, Lines, LongLineError, is_separator, says_nothing

_NEITHER: Final = "neither JSON nor YAML"
_WORDS: Final = {type(None): "null", bool: "a boolean", str: "a text", list: "a list"}


class ReadObject(NamedTuple):
    """One object, and the line of its file at which its document begins, from 1."""

    line: int
    value: dict[str, Any]


class Unreadable(NamedTuple):
    """What is there instead of an object, and where; never its contents."""

    line: int
    what: str
    is_too_long: bool = False

    def __str__(self) -> str:
        return f"{self.what} at line {self.line}"


def read_documents(lines: Iterable[Line]) -> Iterator[ReadObject | Unreadable]:
    """Every object of a file in its order; the items of a List in the List's place.

    `lines` keep their ends, as an opened file gives them. A document that begins with a bracket is
    JSON and needs no separator from the next, unless it stands alone and can only be YAML.
    """
    source = Lines(lines)
    too_long = False
    while True:
        try:
            if too_long:
                skip_document(source)
            yield from _documents(source)
        except LongLineError as error:
            too_long = True
            yield Unreadable(source.number, str(error), is_too_long=True)
        else:
            return


def _documents(source: Lines) -> Iterator[ReadObject | Unreadable]:
    alone = True
    for line in source:
        if line.lstrip().startswith((b"{", b"[")):
            yield from _json(source, line, alone=alone)
            alone = False
        elif says_nothing(line):
            alone = alone or is_separator(line)
        else:
            yield from _yaml(source, line)
            alone = False


def _json(source: Lines, line: bytes, *, alone: bool) -> Iterator[ReadObject | Unreadable]:
    number = source.number
    value = _decode(line)
    if value is None:
        try:
            content = cut_value(source, line)
        except NotWholeError:
            yield Unreadable(number, _NEITHER)
            return
        value = _decode(content)
        if value is None:
            # As kubectl, which reads no more YAML once it has seen JSON (YAMLOrJSONDecoder).
            flow = alone and _ends_here(source)
            yield from _load(content, number) if flow else (Unreadable(number, _NEITHER),)
            return
    yield from _objects(value, number)


def _yaml(source: Lines, line: bytes) -> Iterator[ReadObject | Unreadable]:
    number, held = source.number, [line]
    for following in source:
        if is_separator(following) or _begins_json(following):
            source.give_back([following])
            break
        held.append(following)
    yield from _load(b"".join(held), number)


def _load(content: bytes, number: int) -> Iterator[ReadObject | Unreadable]:
    """The objects of a YAML document that begins at this line."""
    try:
        value = load_document(content)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        yield Unreadable(number + (mark.line if mark else 0), _NEITHER)
    else:
        if value is not None:
            yield from _objects(value, number)


def _ends_here(source: Lines) -> bool:
    for line in source:
        if line.strip():
            source.give_back([line])
            return is_separator(line)
    return True


def _begins_json(line: bytes) -> bool:
    """In YAML a line may begin with a brace as well, but then it is hardly a whole object."""
    return line.startswith(b"{") and (line.strip() == b"{" or _decode(line) is not None)


def _decode(content: bytes) -> Any:
    """The value of what begins with a bracket, None if it is not one JSON value."""
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # the second: in a key
        return None


def _objects(value: Any, line: int, where: str = "") -> Iterator[ReadObject | Unreadable]:
    items = value.get("items") if isinstance(value, dict) else value
    if isinstance(items, list):
        # unstructured.go:IsList: whatever has a list of items is one.
        typed = _types_of_items(value) if isinstance(value, dict) else {}
        for index, item in enumerate(items):
            whole = typed | item if isinstance(item, dict) else item
            yield from _objects(whole, line, f" as item {index}{where}")
    elif isinstance(value, dict):
        yield ReadObject(line, value)
    else:
        found = _WORDS.get(type(value), "a number")
        yield Unreadable(line, f"{found}{where} where an object is expected")


def _types_of_items(listed: dict[str, Any]) -> dict[str, Any]:
    """Kind and version: the API server leaves them out of the items of its lists."""
    kind = listed.get("kind")
    if not isinstance(kind, str) or kind in {"", "List"} or not kind.endswith("List"):
        return {}
    return {"apiVersion": listed.get("apiVersion"), "kind": kind.removesuffix("List")}
