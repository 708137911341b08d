"""Where leaves are: a tree in which each path and each pointer is made once for all objects."""

import zlib
from hashlib import blake2b
from typing import Final

from webhook.objects.pointer import Path, to_pointer

_TIMES: Final = ("time", "timestamp")
_SALTS: Final = 65_535
MOST_PLACES: Final = 8_192
"""Some 3 MB. With more a new tree is begun: names may be any, as keys of annotations are."""


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
        return f"type={name}"
    return f"{field}#{blake2b(str(name).encode(), digest_size=8).hexdigest()}"


class Place(dict[str | Item, "Place"]):
    """One place, and what is below it: `place["status"]["type", "Ready", 0]`.

    path     items by what they are, so that it is equal when a list is in another order; no
             content, for it may stand in a store that replicas share
    pointer  RFC 6901, items by where they are
    salt     see `salt`
    """

    __slots__ = ("_tree", "path", "pointer", "salt")

    def __init__(self, path: Path, pointer: str, tree: "Tree") -> None:
        super().__init__()
        self.path: Final = path
        self.pointer: Final = pointer
        self.salt: Final = salt(path)
        self._tree: Final = tree

    def __missing__(self, token: str | Item) -> "Place":
        """Make the place of a field, or of an item."""
        self._tree.places += 1
        if isinstance(token, str):
            path, pointer = (*self.path, token), to_pointer((token,))
        else:
            field, name, index = token
            path = (*self.path, _told_from_others(field, name) if field else name)
            pointer = to_pointer((index,))
        made = self[token] = Place(path, self.pointer + pointer, self._tree)
        return made


class Tree:
    """Grows until there are too many places, and begins again."""

    def __init__(self) -> None:
        self.places = 0
        self._root = Place((), "", self)

    def root(self) -> Place:
        """Where an object begins."""
        if self.places > MOST_PLACES:
            self.places = 0
            self._root = Place((), "", self)
        return self._root
