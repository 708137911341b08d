"""What differs between two values, leaf by leaf, as digests: contents are compared, not kept.

Only values that may be shown are kept as they are (genguard/detection/values.py).

Items of a list are matched by their `type`, `name` or `uid` where they have one (conditions come
in changing order), by position otherwise. Of a list outside status another order of its items is a
leaf as well, the list itself: generation counts it.
"""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from operator import attrgetter
from typing import Any, Final

import msgspec

from genguard.detection.values import Digest, Shows, digest_of, is_moment, shown
from genguard.objects.fields import Fields, Path, to_pointer

MOST_LEAVES: Final = 2_000
"""More leaves of one write are left out, so that one object cannot take all the memory.

Checked before a PathNode is made: it takes as much as the leaf."""
_ITEM_KEYS: Final = ("type", "name", "uid")
_STATUS: Final = "status"
ORDER: Final = "<order>"
"""The last part of the key of a leaf that is the order of a list; its pointer is the list."""
_ABSENT: Final = None
_CONTAINERS: Final = frozenset({dict, list})
_TEXTS: Final = frozenset({str})
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode
_fields_decoder: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


_TIMES: Final = ("time", "timestamp")
_SALTS: Final = 65_535
MOST_PLACES: Final = 4_096
"""With more a new tree begins: names may be any, as keys of annotations are."""
DEEPEST: Final = 40
LONGEST_PATH: Final = 512
"""Characters. What is below so many, or so many levels down, is compared as one value."""
LONGEST_NAME: Final = 320
"""Characters: more than a key of an annotation may have. Longer names are cut, with a digest."""
_LONG: Final = 128
"""Characters of a path for which a leaf weighs as much as another leaf."""


Item = tuple[str, str | int, int]
"""An item of a list: the field that identifies it, the value of that field, and its index.

An item that no field identifies has "" as field and its index as value."""


def salt(path: Path) -> int:
    """A short digest of a path, for it is kept; 0 where its name is that of a time.

    The name alone makes no time: `change_at` looks at the values as well.
    """
    if path and str(path[-1]).lower().endswith(_TIMES):
        return 0
    return _digest_of_path(path)


def _digest_of_path(path: Path) -> int:
    return zlib.crc32(repr(path).encode()) % _SALTS + 1


def _told_from_others(field: str, name: str | int) -> str:
    """A type is a word of the API's; the name of an item is an object's content."""
    if field == "type":
        return f"type={_short(str(name))}"
    return f"{field}#{blake2b(str(name).encode(), digest_size=8).hexdigest()}"


def _short(name: str) -> str:
    """Return the name; of a name that is too long the beginning and a digest."""
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[:32]}#{blake2b(name.encode(), digest_size=8).hexdigest()}"


class PathNode(dict[str | Item, "PathNode"]):
    """A path in objects, and the paths below it: `node["status"]["type", "Ready", 0]`.

    path     items by identity, so that it is equal when a list is in another order; without
             content of objects, since replicas share it in a store
    pointer  RFC 6901, items by index
    salt     see `salt`

    is_deepest  what is below is not looked at; equal for equal paths
    """

    __slots__ = ("_tree", "is_deepest", "path", "pointer", "salt")

    def __init__(self, path: Path, pointer: str, tree: "PathTree") -> None:
        super().__init__()
        self.path: Final = path
        self.pointer: Final = pointer
        self.salt: Final = salt(path)
        self.is_deepest: Final = (
            len(path) >= DEEPEST or sum([len(str(name)) for name in path]) >= LONGEST_PATH
        )
        self._tree: Final = tree

    def __missing__(self, token: str | Item) -> "PathNode":
        """Make the place of a field, or of an item."""
        if isinstance(token, str):
            name = _short(token)
            path, pointer = (*self.path, name), to_pointer((name,))
        else:
            field, named, index = token
            path = (*self.path, _told_from_others(field, named) if field else named)
            pointer = to_pointer((index,))
        made = PathNode(path, self.pointer + pointer, self._tree)
        if self._tree.places <= MOST_PLACES:
            self._tree.places += 1
            self[token] = made
        return made


class PathTree:
    """All known paths; with too many it begins again."""

    def __init__(self) -> None:
        self._begin()

    def root(self) -> PathNode:
        """Return the node of a whole object."""
        if self.places > MOST_PLACES:
            self._begin()
        return self._root

    def _begin(self) -> None:
        self.places = 0
        self._root = PathNode((), "", self)


_tree: Final = PathTree()


def place_of(name: str) -> PathNode:
    """Return the node of a top-level field."""
    return _tree.root()[name]


class Change(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One leaf that differs; a digest is None where the leaf is absent.

    shown_before, shown_after  the values as JSON; None where they are absent or must not be shown
    has_grown  of a label or an annotation: it is the text of before with something added
    """

    key: Path  # list items by identity: equal across reorderings
    pointer: str  # RFC 6901, as the object had it
    before: Digest | None
    after: Digest | None
    salt: int  # of the key; see genguard/detection/changes.py
    shown_before: str | None = None
    shown_after: str | None = None
    has_grown: bool = False

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

    @property
    def is_order(self) -> bool:
        """Return whether the leaf is the order of a list."""
        return self.key[-1] == ORDER

    @property
    def holds_time(self) -> bool:
        """Return whether the leaf is a time: lastTransitionTime, heartbeatTimestamp."""
        return not self.salt


OFF: Final = frozenset({None, *map(digest_of, (b"0", b"false", b'"false"', b'""', b"null"))})
"""Digests of what stands for off. Who turns a switch often has good reasons."""
Leaves = tuple[Change, ...]
"""By pointer."""


class _Found(list[Change]):
    """The leaves that differ, so far.

    shows     which of their values are kept
    in_order  whether the order of a list counts, here where the items have names
    """

    __slots__ = ("in_order", "shows")

    def __init__(self, shows: Shows) -> None:
        super().__init__()
        self.shows: Final = shows
        self.in_order = True

    def note(self, at: PathNode, before: Any, after: Any) -> None:
        """Add a leaf."""
        self.append(change_at(at, before, after, self.shows))


def change_at(
    at: PathNode, before: Any, after: Any, shows: Shows, *, has_grown: bool = False
) -> Change:
    """Return the change of a leaf; a value is None where it is absent."""
    path = at.path
    is_time = not at.salt and is_moment(before) and is_moment(after)
    return Change(
        path,
        at.pointer,
        value_digest(before),
        value_digest(after),
        0 if is_time else at.salt or _digest_of_path(path),
        shown(before, path, shows),
        shown(after, path, shows),
        has_grown,
    )


def value_digest(value: Any) -> Digest | None:
    """Return a digest of a value as JSON; None where it is absent."""
    return None if value is _ABSENT else digest_of(_encode(value))


Part = tuple[str, bytes | msgspec.Raw | None, bytes | msgspec.Raw | None]
"""A top-level field, before and after."""
_pointer: Final = attrgetter("pointer")


def weight_of(leaves: Leaves) -> int:
    """Return how many leaves they count as in the bounds: one each, and more if paths are long."""
    return sum([1 + len(one.pointer) // _LONG for one in leaves])


def changes(before: Fields, after: Fields, keys: Iterable[str]) -> Leaves:
    """Return the leaves that differ below the given top-level fields.

    Raises msgspec.MsgspecError and RecursionError for values that cannot be decoded.
    """
    return leaves_of(differing(before, after, keys))


def differing(before: Fields, after: Fields, keys: Iterable[str]) -> Iterator[Part]:
    """Yield the given top-level fields whose bytes differ."""
    for key in keys:
        old, new = before.get(key), after.get(key)
        if old != new:
            yield key, old, new


def leaves_of(parts: Iterable[Part], shows: Shows = Shows.NOTHING) -> Leaves:
    """Return the leaves that differ below such fields; raises as `changes` does."""
    found = _Found(shows)
    for key, old, new in parts:
        at = _tree.root()[key]
        found.in_order = key != _STATUS
        left, right = _opened(old), _opened(new)
        if left and right:
            for name, value in right.items():
                if len(found) >= MOST_LEAVES:
                    break
                before = left.pop(name, None)
                if before != value:
                    below = at[name]
                    _compare(below, below, _decoded(before), _decoded(value), found)
            for name, value in left.items():
                if len(found) >= MOST_LEAVES:
                    break
                _every_leaf(at[name], _decoded(value), found, is_gone=True)
        else:
            _compare(at, at, _decoded(old), _decoded(new), found)
    found.sort(key=_pointer)
    return tuple(found[:MOST_LEAVES])


def _opened(raw: bytes | msgspec.Raw | None) -> dict[str, msgspec.Raw] | None:
    """Return the fields of an object, undecoded: most of them are equal to the byte."""
    try:
        return None if raw is None else _fields_decoder.decode(raw)
    except msgspec.ValidationError:
        return None


def _decoded(raw: bytes | msgspec.Raw | None) -> Any:
    return _ABSENT if raw is None else _decode(raw)


def _compare(old_at: PathNode, at: PathNode, old: Any, new: Any, found: _Found) -> None:
    """Compare two values; where both are objects, or both lists, what is below them."""
    if len(found) >= MOST_LEAVES:
        return
    kind = type(new)
    is_open = new and kind in _CONTAINERS and not at.is_deepest
    was_open = old and type(old) in _CONTAINERS and not at.is_deepest
    if is_open and was_open and type(old) is kind:
        (_compare_objects if kind is dict else _compare_lists)(old_at, at, old, new, found)
    elif is_open or was_open:
        _every_leaf(old_at, old, found, is_gone=True)
        _every_leaf(at, new, found, is_gone=False)
    elif not _same(old, new):
        found.note(at, old, new)


def _compare_objects(
    old_at: PathNode, at: PathNode, old: dict[str, Any], new: dict[str, Any], found: _Found
) -> None:
    for name, value in new.items():
        before = old.get(name)
        if before is value or (before == value and _same(before, value)):
            continue
        if len(found) >= MOST_LEAVES:
            return
        below = at[name]
        if type(value) in _CONTAINERS or type(before) in _CONTAINERS:
            _compare(below if old_at is at else old_at[name], below, before, value, found)
        else:
            found.note(below, before, value)
    if old.keys() <= new.keys():
        return
    for name, value in old.items():
        if len(found) >= MOST_LEAVES:
            return
        if name not in new:
            _every_leaf(old_at[name], value, found, is_gone=True)


def _compare_lists(
    old_at: PathNode, at: PathNode, old: list[Any], new: list[Any], found: _Found
) -> None:
    old_field, old_names = identities(old)
    field, names = identities(new)
    known = {name: index for index, name in enumerate(old_names)}
    if found.in_order and field and field == old_field:
        _note_order(at, old_names, names, found)
    for index, name in enumerate(names):
        if len(found) >= MOST_LEAVES:
            return
        value, before = new[index], known.pop(name, None) if field == old_field else None
        if before is None:
            _every_leaf(at[field, name, index], value, found, is_gone=False)
        elif not _same(old[before], value):
            below = at[field, name, index]
            old_below = below if before == index and old_at is at else old_at[field, name, before]
            _compare(old_below, below, old[before], value, found)
    for name, index in known.items():
        if len(found) >= MOST_LEAVES:
            return
        _every_leaf(old_at[old_field, name, index], old[index], found, is_gone=True)


def _note_order(
    at: PathNode, old: Sequence[str | int], new: Sequence[str | int], found: _Found
) -> None:
    """Add the list where the items that both sides have come in another order."""
    both = {*old} & {*new}
    before, after = ([name for name in one if name in both] for one in (old, new))
    if before != after and len(found) < MOST_LEAVES:
        digests = value_digest(before), value_digest(after)
        found.append(Change((*at.path, ORDER), at.pointer, *digests, at.salt))


def _every_leaf(at: PathNode, value: Any, found: _Found, *, is_gone: bool) -> None:
    """Add each leaf of a value that only one side has."""
    inside: Iterable[tuple[str | Item, Any]]
    if value and type(value) is dict and not at.is_deepest:
        inside = value.items()
    elif value and type(value) is list and not at.is_deepest:
        field, names = identities(value)
        inside = [((field, name, index), value[index]) for index, name in enumerate(names)]
    else:
        inside = ()
        if value is not _ABSENT and len(found) < MOST_LEAVES:
            found.note(at, *_lone(value, is_gone=is_gone))
    for token, child in inside:
        if len(found) >= MOST_LEAVES:
            return
        if child and type(child) in _CONTAINERS:
            _every_leaf(at[token], child, found, is_gone=is_gone)
        elif child is not _ABSENT:
            found.note(at[token], *_lone(child, is_gone=is_gone))


def _lone(value: Any, *, is_gone: bool) -> tuple[Any, Any]:
    return (value, _ABSENT) if is_gone else (_ABSENT, value)


def _same(one: Any, other: Any) -> bool:
    """Return whether values are equal in JSON: to Python 1 is 1.0 and True as well."""
    return bool(one == other and (type(one) is str or _encode(one) == _encode(other)))


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
