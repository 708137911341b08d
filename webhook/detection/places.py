"""Where leaves are: a tree in which each path and each pointer is made once for all objects."""

import sys
import zlib
from hashlib import blake2b
from typing import Final

from webhook.objects.pointer import Path, to_pointer

_TIMES: Final = ("time", "timestamp")
_SALTS: Final = 65_535
MOST_PLACES: Final = 8_192
MOST_BYTES_OF_PLACES: Final = 4 * 1024 * 1024
"""With more a new tree is begun: names may be any, as keys of annotations are."""
DEEPEST: Final = 40
LONGEST_PATH: Final = 512
"""Characters. What is below so many, or so many levels down, is compared as one value."""
LONGEST_NAME: Final = 320
"""Characters: more than a key of an annotation may have. Longer names are told by a digest."""
_BYTES_OF_PLACE: Final = 500


Item = tuple[str, str | int, int]
"""One of a list: by which field it is told from the others, as what, and where it is.

An item that is only told by where it is has no field, and its index as name."""


def salt(path: Path) -> int:
    """A short digest of a path, for it is kept; 0 where its name says that it holds when."""
    if path and str(path[-1]).lower().endswith(_TIMES):
        return 0
    return zlib.crc32(repr(path).encode()) % _SALTS + 1


def _told_from_others(field: str, name: str | int) -> str:
    """A type is a word of the API's; the name of an item is an object's content."""
    if field == "type":
        return f"type={_short(str(name))}"
    return f"{field}#{blake2b(str(name).encode(), digest_size=8).hexdigest()}"


def _short(name: str) -> str:
    """The name itself, or the beginning and a digest of one that is too long."""
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[:32]}#{blake2b(name.encode(), digest_size=8).hexdigest()}"


def _token_size(token: str | Item) -> int:
    """Bytes that a place takes for what it is found by."""
    return sys.getsizeof(token if isinstance(token, str) else token[1])


class Place(dict[str | Item, "Place"]):
    """One place, and what is below it: `place["status"]["type", "Ready", 0]`.

    path     items by what they are, so that it is equal when a list is in another order; no
             content, for it may stand in a store that replicas share
    pointer  RFC 6901, items by where they are
    salt     see `salt`

    is_deepest  what is below is not looked at; equal for equal paths
    """

    __slots__ = ("_tree", "is_deepest", "path", "pointer", "salt")

    def __init__(self, path: Path, pointer: str, tree: "Tree") -> None:
        super().__init__()
        self.path: Final = path
        self.pointer: Final = pointer
        self.salt: Final = salt(path)
        self.is_deepest: Final = (
            len(path) >= DEEPEST or sum([len(str(name)) for name in path]) >= LONGEST_PATH
        )
        self._tree: Final = tree

    def __missing__(self, token: str | Item) -> "Place":
        """Make the place of a field, or of an item."""
        if isinstance(token, str):
            name = _short(token)
            path, pointer = (*self.path, name), to_pointer((name,))
        else:
            field, named, index = token
            path = (*self.path, _told_from_others(field, named) if field else named)
            pointer = to_pointer((index,))
        made = Place(path, self.pointer + pointer, self._tree)
        if not self._tree.is_full:
            self._tree.count(sys.getsizeof(made.pointer) + sys.getsizeof(path) + _token_size(token))
            self[token] = made
        return made


class Tree:
    """Grows until there are too many places, and begins again."""

    def __init__(self) -> None:
        self._begin()

    @property
    def is_full(self) -> bool:
        """What is made now is not kept."""
        return self.places > MOST_PLACES or self.bytes > MOST_BYTES_OF_PLACES

    def count(self, size: int) -> None:
        """One more place is kept, with so many bytes of names."""
        self.places += 1
        self.bytes += _BYTES_OF_PLACE + size

    def root(self) -> Place:
        """Where an object begins."""
        if self.is_full:
            self._begin()
        return self._root

    def _begin(self) -> None:
        self.places = 0
        self.bytes = 0
        self._root = Place((), "", self)
