"""What differs between two values, leaf by leaf, as digests: contents are compared, not kept.

Only values that may be shown are kept as they are (genguard/detection/values.py).

Items of a list are matched by their `type`, `name` or `uid` where they have one (conditions come in
changing order), taints by key and effect, all others by position. Outside status another order of
the items of a list is a leaf as well, the list itself: generation counts it. A text with its lines
in another order is such a leaf.
"""

import re
from base64 import b64decode
from bisect import bisect
from collections.abc import Iterable, Sequence
from contextlib import suppress
from hashlib import blake2b
from operator import attrgetter
from typing import Any, Final

import msgspec

from genguard.detection.values import Digest, Shows, digest_of, shown, word_at
from genguard.objects.fields import Fields, Path, to_pointer

MOST_LEAVES: Final = 2_000
"""More leaves of one write are left out, so that one object cannot take all the memory."""
_ITEM_KEYS: Final = ("type", "name", "uid")
_TAINT: Final = frozenset({"key", "effect"})
"""Both tell a taint from others (pkg/apis/core/validation/validation.go:validateNodeTaints)."""
ORDER: Final = "<order>"
"""The last part of the key of a leaf that is the order of a list, or of the lines of a text; its
pointer is the list, or the text."""
_TIMES: Final = ("time", "timestamp")
MOST_NODES: Final = 4_096
"""Names may be any, as keys of annotations are: when so many are remembered, all are forgotten."""
DEEPEST: Final = 40
LONGEST_PATH: Final = 512
"""Characters. All below a path of this length, or of DEEPEST levels, is compared as one value."""
LONGEST_NAME: Final = 320
"""Characters: more than a key of an annotation may have. Longer names are cut, with a digest."""

_MOMENT: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{9,19}(\.[0-9]+)?$|[A-Z][a-z]{2},? .*[0-9]{2}:[0-9]{2}:"
)
_EARLIEST: Final = 100_000_000
"""Seconds since the epoch: of 1973."""
_NUMBERS: Final = frozenset({int, float})
_LINES: Final = re.compile(rb"[\n,{}\[\]]")
_CONTAINERS: Final = frozenset({dict, list})
_TEXTS: Final = frozenset({str})
_NULL: Final = msgspec.Raw(b"null")
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode
_fields_decoder: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Change(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One leaf that differs; a digest is None where the leaf is absent.

    shown_before, shown_after  the values as JSON; None where they are absent or must not be shown
    holds_time  it is a time: lastTransitionTime, heartbeatTimestamp
    has_grown  it is the text of before with something added
    is_progress  it says when, or is a larger number than before; its name tells nothing
    """

    key: Path  # list items by identity: equal across reorderings
    pointer: str  # RFC 6901, as the object has it, or had it where the leaf is gone
    before: Digest | None
    after: Digest | None
    shown_before: str | None = None
    shown_after: str | None = None
    holds_time: bool = False
    has_grown: bool = False
    is_progress: bool = False

    @property
    def removed(self) -> bool:
        """Return whether the leaf is absent afterwards."""
        return self.after is None

    @property
    def added(self) -> bool:
        """Return whether the leaf was absent before."""
        return self.before is None

    @property
    def is_switch(self) -> bool:
        """Return whether one of its values stands for off: it is absent, 0, false or empty."""
        return self.before in OFF or self.after in OFF


OFF: Final = frozenset({None, *map(digest_of, (b"0", b"false", b'"false"', b'""', b"null"))})
"""Digests of what stands for off. Who switches often has good reasons."""
Leaves = tuple[Change, ...]
"""By pointer."""
by_pointer: Final = attrgetter("pointer")


class PathNode(msgspec.Struct, eq=False, gc=False):
    """A path in objects.

    path     items by identity, so that it is equal when a list is in another order; without
             content of objects, since replicas share it in a store
    pointer  RFC 6901, items by index
    named_as_time  its name ends as that of a time does; its values tell whether it is one
    is_deepest     what is below is not looked at; equal for equal paths
    word     which word of a condition it holds: see word_at
    inside   the nodes in it that are remembered, by name; of items with the index
    """

    path: Path = ()
    pointer: str = ""
    named_as_time: bool = False
    is_deepest: bool = False
    word: str = ""
    inside: "dict[str | tuple[_Item, int], PathNode]" = {}


ROOT: Final = PathNode()
_room: Final = [MOST_NODES]
"""How many more nodes are remembered; one number, in a list so that it can be counted down."""
_Item = tuple[str, str | int]
"""An item of a list: the field that tells it from others, and the value of that field.

An item that no field tells from others has "" and its index."""


def below(at: PathNode, token: str | _Item, index: int = 0) -> PathNode:
    """Return the node of a field, or of an item with its index in the list."""
    key = token if isinstance(token, str) else (token, index)
    return at.inside.get(key) or _remembered(at, key)


def _remembered(at: PathNode, key: str | tuple[_Item, int]) -> PathNode:
    """Make a node, and remember it, unless its name is as long as a request may be."""
    name: str | int
    step: str | int
    if isinstance(key, str):
        name = step = _short(key)
        length = len(key)
    else:
        item, step = key
        name, length = item_name(*item), len(str(item[1]))
    path = (*at.path, name)
    found = PathNode(
        path,
        at.pointer + to_pointer((step,)),
        named_as_time=str(name).lower().endswith(_TIMES),
        is_deepest=len(path) >= DEEPEST or sum([len(str(part)) for part in path]) >= LONGEST_PATH,
        word=word_at(path),
    )
    if length <= LONGEST_NAME:
        if _room[0] <= 0:
            ROOT.inside.clear()
            _room[0] = MOST_NODES
        _room[0] -= 1
        at.inside[key] = found
    return found


def item_name(field: str, name: str | int) -> str | int:
    """Return what stands in a path for an item of a list.

    A type is a word of the API's; the name of an item is an object's content.
    """
    if field == "type":
        return f"type={_short(str(name))}"
    return f"{field}#{_hashed(str(name))}" if field else name


def _short(name: str) -> str:
    """Return the name, or the beginning and a digest of a name that is too long."""
    return name if len(name) <= LONGEST_NAME else f"{name[:32]}#{_hashed(name)}"


def _hashed(name: str) -> str:
    return blake2b(name.encode(), digest_size=8).hexdigest()


class _FullError(Exception):
    """As many leaves were found as are kept."""


class _Found(list[Change]):
    """The leaves that differ, so far; `shows`: which of their values are kept."""

    __slots__ = ("shows",)

    def __init__(self, shows: Shows) -> None:
        super().__init__()
        self.shows: Final = shows

    def note(self, at: PathNode, before: Any, after: Any) -> None:
        """Add a leaf; a value is None where it is absent."""
        if len(self) >= MOST_LEAVES:
            raise _FullError
        holds_time = at.named_as_time and _is_moment(before) and _is_moment(after)
        are_texts = type(before) is type(after) is str
        # Most texts say no progress, and their first character tells it.
        may_be = type(after) is not str or after[:1].isdigit()
        is_order = are_texts and len(before) == len(after) and _is_reordered(before, after)
        self.append(
            Change(
                (*at.path, ORDER) if is_order else at.path,
                at.pointer,
                None if before is None else digest_of(_encode(before)),
                None if after is None else digest_of(_encode(after)),
                shown(before, at.word, self.shows),
                shown(after, at.word, self.shows),
                holds_time,
                are_texts and len(before) < len(after) and _has_grown(before, after),
                holds_time or (may_be and _is_progress(before, after)),
            )
        )


def changes(
    before: Fields, after: Fields, shows: Shows = Shows.NOTHING, *, within: str = ""
) -> Leaves:
    """Return the leaves that differ in fields of an object, or of the field that is named.

    `shows`: which of their values are kept.
    Raises msgspec.MsgspecError and RecursionError for values that cannot be decoded.
    """
    found, at = _Found(shows), below(ROOT, within) if within else ROOT
    with suppress(_FullError):
        for key in {**after, **before}:
            old, new = before.get(key, _NULL), after.get(key, _NULL)
            if old == new:
                continue
            left, right = _opened(old), _opened(new)
            if left and right:  # most of their fields are equal to the byte
                old_fields, new_fields = (
                    {name: _decode(raw) for name, raw in side.items() if other.get(name) != raw}
                    for side, other in ((left, right), (right, left))
                )
                _walk(below(at, key), old_fields, new_fields, found)
            else:
                _walk(at, {key: _decode(old)}, {key: _decode(new)}, found)
    return tuple(sorted(found, key=by_pointer))


def _opened(raw: msgspec.Raw) -> dict[str, msgspec.Raw] | None:
    """Return the fields of an object, undecoded."""
    try:
        return _fields_decoder.decode(raw)
    except msgspec.ValidationError:
        return None


def _walk(at: PathNode, old: dict[Any, Any], new: dict[Any, Any], found: _Found) -> None:
    """Compare the fields of an object, or the items of a list."""
    for index, (token, after) in enumerate(new.items()):
        before = old.get(token)
        if before is after or (before == after and _same(before, after)):
            continue
        node = below(at, token, index)
        if type(after) in _CONTAINERS or type(before) in _CONTAINERS:
            _compare(node, before, after, found)
        else:
            found.note(node, before, after)
    if not old.keys() <= new.keys():
        for index, (token, before) in enumerate(old.items()):
            if token not in new:
                node = below(at, token, index)
                _compare(node, before, None, found)


def _same(value: Any, other: Any) -> bool:
    """Return whether equal values are equal in JSON too: Python takes 1 for 1.0 and True."""
    return type(value) is str or _encode(value) == _encode(other)


def _compare(at: PathNode, old: Any, new: Any, found: _Found) -> None:
    """Compare two values that differ; where they are objects or lists, what is in them."""
    left = _inside(at, old) if old and type(old) in _CONTAINERS else None
    right = _inside(at, new) if new and type(new) in _CONTAINERS else None
    if left and right:
        if type(old) is type(new) is list and at.path[0] != "status":
            _note_order(at, left, right, found)
    else:
        before, after = None if left else old, None if right else new
        if before is not None or after is not None:
            found.note(at, before, after)
    if left or right:
        _walk(at, left or {}, right or {}, found)


def _inside(at: PathNode, value: Any) -> dict[Any, Any]:
    """Return the fields of an object, or the items of a list; none of what is compared whole."""
    if at.is_deepest:
        return {}
    if type(value) is dict:
        return value
    field, names = identities(value)
    if not field and value and type(value[0]) is dict and _TAINT.issubset(value[0]):
        pairs = [f"{item.get('key')}:{item.get('effect')}" for item in value if type(item) is dict]
        if len({*pairs}) == len(value):
            field, names = "key", pairs
    return {(field, name): item for name, item in zip(names, value, strict=True)}


def _note_order(at: PathNode, old: Iterable[_Item], new: Iterable[_Item], found: _Found) -> None:
    """Add the list if the items whose names both sides have come in another order."""
    both = {*old} & {*new} if [*old] != [*new] else ()
    before, after = ([name for name in side if name in both] for side in (old, new))
    if before != after and len(found) < MOST_LEAVES:
        was, now = (digest_of(_encode([name for _, name in side])) for side in (before, after))
        found.append(Change((*at.path, ORDER), at.pointer, was, now))


def identities(values: list[Any]) -> tuple[str, Sequence[str | int]]:
    """Return the field that tells the items of a list apart, and its value in each item.

    Where no field does, "" and the positions.
    """
    for field in _ITEM_KEYS:
        try:
            names = [value[field] for value in values]
        except (KeyError, TypeError):
            continue  # an item without the field, or that is no object
        if set(map(type, names)) == _TEXTS and len(set(names)) == len(names):
            return field, names
    return "", range(len(values))


def _is_moment(value: Any) -> bool:
    """Whether a value may say when: a date, seconds since the epoch, or nothing at all.

    A label `example.org/runtime` or a field `backupTime` has the name of a time, and holds none.
    """
    if isinstance(value, str):
        return not value or _MOMENT.match(value) is not None
    if isinstance(value, int | float):
        return value == 0 or value >= _EARLIEST
    return not value


def _is_progress(old: Any, new: Any) -> bool:
    """Whether a value says when, or is a larger number than before or the first one."""
    if type(new) in _NUMBERS:
        return old is None or (type(old) in _NUMBERS and bool(old < new))
    was = "" if old is None else old
    if not new or type(was) is not str or type(new) is not str:
        return False
    is_number = new.isdecimal() and (not was or was.isdecimal())
    is_larger = is_number and (len(was), was) < (len(new), new)
    return is_larger or (_is_moment(was) and _is_moment(new))


def _has_grown(old: str, new: str) -> bool:
    """Whether the new text is the old one with something added at one place."""
    if not 0 < len(old) < len(new):
        return False
    same = bisect(range(len(old)), 0, key=lambda end: not new.startswith(old[: end + 1]))
    return new.endswith(old[same:])


def _is_reordered(old: str, new: str) -> bool:
    """Whether a text, or what it encodes, has its lines, or items of a list, in another order."""
    if not _LINES.search(text := _decoded(old)):
        return False
    return sorted(_LINES.split(text)) == sorted(_LINES.split(_decoded(new)))


def _decoded(text: str) -> bytes:
    """Return what a value of a Secret encodes, or the bytes of any other text."""
    try:
        return b64decode(text, validate=True)
    except ValueError:
        return text.encode()
