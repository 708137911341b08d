"""Objects in files as people have them: YAML documents, JSON, Lists, one a line or end to end.

What cannot be read is told with its place and never hides what comes after it. A line that holds a
whole JSON object costs no more memory than itself; any other document is held until it ends. A
document with a line that is too long is left out.

YAML is read as kubectl reads it: what becomes of `on`, `1.0`, `0777`, times and keys.
Source: sigs.k8s.io/yaml yaml.go:YAMLToJSON; go.yaml.in/yaml/v2 resolve.go and decode.go.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, ClassVar, Final, NamedTuple

import msgspec
import yaml
from yaml.constructor import BaseConstructor, ConstructorError

LONGEST_LINE: Final = 64
"""MiB, unless a flag says otherwise; the largest object of a cluster has 3."""
_MIB: Final = 1 << 20
_PIECE: Final = 1 << 16


class LongLine(NamedTuple):
    """Stands for a line of more than so many MiB, which was not kept."""

    longest: int

    def __str__(self) -> str:
        return f"a line longer than {self.longest} MiB"


Line = bytes | LongLine


def bounded(stream: IO[bytes], longest: int) -> Iterator[Line]:
    """The lines of a file; one of more than `longest` MiB is passed over and never held."""
    most = longest * _MIB
    while line := stream.readline(most + 1):
        if len(line) <= most or line.endswith(b"\n"):
            yield line
        else:
            while (piece := stream.readline(_PIECE)) and not piece.endswith(b"\n"):
                pass
            yield LongLine(longest)


_YAML_WORDS: Final[Mapping[str, Any]] = {"": None} | {
    spelling: value
    for value, words in ((True, "y yes true on"), (False, "n no false off"), (None, "~ null"))
    for word in words.split()
    for spelling in (word, word.capitalize(), word.upper())
}
_NO_JSON: Final = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_NUMBER_STARTS: Final = frozenset("0123456789+-.")
_INTEGER: Final = re.compile(
    r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))"
)
_BASES: Final = (16, 2, 8, 10)
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_WITHOUT_EXPONENT: Final = 1e21
"""Go encoding/json encode.go:floatEncoder."""
_PREFIX: Final = "tag:yaml.org,2002:"
_DEEPEST_NODE: Final = 500
"""libyaml's own recursion has no limit: the process would end."""
_MOST_REPEATED: Final = 400_000
"""Values of a document of which more than a tenth may be repeated by aliases, about as in Go
(yaml.v2 decode.go:allowedAliasRatio): some lines could stand for billions of values."""
_PLAIN: Final = "plain"
"""The tag of what is written without quotes and tag, and so may be more than a text."""


def load_document(content: bytes) -> Any:
    """The JSON value of one document; None where there is none.

    Raises yaml.YAMLError, ValueError and RecursionError.
    """
    return yaml.load(content, Loader=_KubeLoader)  # noqa: S506 - a SafeLoader


def _size(node: yaml.Node, sizes: dict[int, int]) -> int:
    """How many values a node stands for, its aliases followed; `sizes` of those known by id."""
    if id(node) not in sizes:
        sizes[id(node)] = 1  # a node that holds itself is an error when it is constructed
        if isinstance(node, yaml.MappingNode):
            sizes[id(node)] += sum(_size(child, sizes) for pair in node.value for child in pair)
        elif isinstance(node, yaml.SequenceNode):
            sizes[id(node)] += sum(_size(child, sizes) for child in node.value)
    return sizes[id(node)]


class _KubeLoader(yaml.CSafeLoader):
    """Gives what Go's encoding/json can write: no times, no sets, keys that are texts."""

    _depth = 0

    def descend_resolver(self, *_: Any) -> None:
        self._depth += 1
        if self._depth > _DEEPEST_NODE:
            raise RecursionError

    def ascend_resolver(self) -> None:
        self._depth -= 1

    def get_single_node(self) -> yaml.Node | None:
        node = super().get_single_node()
        sizes: dict[int, int] = {}
        values = 0 if node is None else _size(node, sizes)
        if values > _MOST_REPEATED and len(sizes) < values * 0.9:
            raise ConstructorError(None, None, "the document is repeated by aliases too often")
        return node

    def text(self, node: yaml.Node) -> str:
        # Not that of SafeConstructor, which takes a text out of some mappings.
        return str(BaseConstructor.construct_scalar(self, node))  # type: ignore[arg-type]

    def plain(self, node: yaml.Node) -> Any:
        return _plain(self.text(node))

    def sequence(self, node: yaml.Node) -> list[Any]:
        # All at once, unlike PyYAML: an anchor that holds itself is an error, as in Go.
        return self.construct_sequence(node, deep=True)  # type: ignore[arg-type]

    def mapping(self, node: yaml.Node) -> dict[str, Any]:
        if isinstance(node, yaml.MappingNode):
            self.flatten_mapping(node)
        return {_key(key): value for key, value in self.construct_pairs(node, deep=True)}

    yaml_constructors: ClassVar[dict[str | None, Any]] = {
        None: yaml.SafeLoader.construct_undefined,
        _PLAIN: plain,
        f"{_PREFIX}null": plain,
        f"{_PREFIX}bool": plain,
        f"{_PREFIX}int": plain,
        f"{_PREFIX}float": plain,
        f"{_PREFIX}str": text,
        f"{_PREFIX}timestamp": text,
        f"{_PREFIX}seq": sequence,
        f"{_PREFIX}map": mapping,
    }


_KubeLoader.yaml_implicit_resolvers = {
    "<": [(f"{_PREFIX}merge", re.compile(r"<<\Z"))],
    None: [(_PLAIN, re.compile(""))],
}
"""What a scalar without quotes and tag is, by its first character: PyYAML is not asked."""


def _plain(text: str) -> Any:
    if text in _YAML_WORDS:
        return _YAML_WORDS[text]
    if text[0] not in _NUMBER_STARTS:
        return text
    if _NO_JSON.fullmatch(text):
        raise ValueError("not a number of JSON")
    digits = text if text[0] == "." else text.replace("_", "")
    if match := _INTEGER.fullmatch(digits):
        sign, *found = match.groups()
        ((base, number),) = (pair for pair in zip(_BASES, found, strict=True) if pair[1])
        return int(sign + number, base)
    number = float(digits) if _FLOAT.fullmatch(digits) else math.inf
    # A whole float is written without a fraction on the way through JSON, and read as integer.
    if number.is_integer() and abs(number) < _WITHOUT_EXPONENT:
        return int(number)
    return text if math.isinf(number) else number


def _key(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise ValueError("a key that is no text")


_NEITHER: Final = "neither JSON nor YAML"
_WORDS: Final = {type(None): "null", bool: "a boolean", str: "a text", list: "a list"}
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


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


class _LongLineError(Exception):
    """A line that was wanted is too long; the message says how long it may be."""


class _Lines(Iterator[bytes]):
    """An iterator; `number` is that of the line that came last.

    Raises _LongLineError for a LongLine, and then goes on with the next.
    """

    def __init__(self, lines: Iterable[Line], number: int = 0) -> None:
        self._lines: Final = iter(lines)
        self._next: bytes | None = None
        self.number = number

    def __next__(self) -> bytes:
        line = next(self._lines) if self._next is None else self._next
        self._next = None
        self.number += 1
        if isinstance(line, LongLine):
            raise _LongLineError(str(line))
        return line.removeprefix(_BYTE_ORDER_MARK) if self.number == 1 else line

    def until(self, ends: Callable[[bytes], bool]) -> Iterator[bytes]:
        """Yield lines as far as the next document, which a separator begins, or what `ends`."""
        for line in self:
            if _is_separator(line) or ends(line):
                self._next = line
                self.number -= 1
                return
            yield line


def _is_separator(line: bytes) -> bool:
    """Whether a line ends a document, whatever that was (YAML 1.1, c-forbidden)."""
    return line.startswith((b"---", b"...")) and not line[3:4].strip()


def _says_nothing(line: bytes) -> bool:
    """Whether a line between two documents is part of neither."""
    rest = (line[3:] if _is_separator(line) else line).lstrip()
    return not rest or rest.startswith((b"#", b"%"))


def read_documents(lines: Iterable[Line]) -> Iterator[ReadObject | Unreadable]:
    """Every object of a file in its order; the items of a List in the List's place.

    `lines` keep their ends, as an opened file gives them. A document that begins with a bracket is
    JSON and needs no separator from the next.
    """
    source = _Lines(lines)
    too_long = False
    while True:
        try:
            for _ in source.until(_begins_object) if too_long else ():
                pass
            yield from _documents(source)
        except _LongLineError as error:
            too_long = True
            yield Unreadable(source.number, str(error), is_too_long=True)
        else:
            return


def _documents(source: _Lines, *, is_torn: bool = False) -> Iterator[ReadObject | Unreadable]:
    """The objects of all documents.

    A line that begins with a brace belongs to the JSON before it only where a value may stand. It
    never does if `is_torn`: of a file with an object a line, no other goes with a broken one.
    """
    for line in source:
        number = source.number
        if _says_nothing(line):
            continue
        if not line.lstrip().startswith((b"{", b"[")):
            yield from _load(b"".join([line, *source.until(_begins_json)]), number)
        elif (value := _decode(line)) is not None:
            yield from _objects(value, number)
        else:
            held = [line]

            def ends(after: bytes, held: Sequence[bytes] = held) -> bool:
                last = next(earlier.rstrip()[-1:] for earlier in reversed(held) if earlier.strip())
                return _begins_object(after) and (is_torn or last not in b":,[")

            held += source.until(ends)
            yield from _json(held, number)


def _json(held: Sequence[bytes], number: int) -> Iterator[ReadObject | Unreadable]:
    """The objects of the JSON values that stand end to end in these lines.

    Where one is broken, what comes after it begins with the next line that begins with a brace.
    """
    text = b"".join(held).decode(errors="surrogateescape")
    line, at, end = number, 0, 0
    while found := _SIGN.search(text, end):
        value = None
        line += text.count("\n", at, found.start())
        at = found.start()
        with suppress(ValueError, RecursionError):
            _, end = _scanner.raw_decode(text, at)
            value = _decode(text[at:end].encode(errors="surrogateescape"))
        if value is None:
            yield Unreadable(line, _NEITHER)
            below = range(line - number + 1, len(held))
            begin = next((index for index in below if _begins_object(held[index])), len(held))
            yield from _documents(_Lines(held[begin:], number + begin - 1), is_torn=True)
            return
        yield from _objects(value, line)


_scanner: Final = json.JSONDecoder()
_SIGN: Final = re.compile(r"\S")


def _begins_object(line: bytes) -> bool:
    return line.startswith(b"{")


def _begins_json(line: bytes) -> bool:
    """In YAML a line may begin with a brace as well, but then it is hardly a whole object."""
    return _begins_object(line) and (line.strip() == b"{" or _decode(line) is not None)


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
            typed_item = typed | item if isinstance(item, dict) else item
            yield from _objects(typed_item, line, f" as item {index}{where}")
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
