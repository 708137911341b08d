"""Which labels, annotations, finalizers and owners of an object differ, as digests.

A label or an annotation is compared by its key, a finalizer by its name, an owner by its uid and
whether it is the controller. Finalizers and owners are sets to their writers: their order, and so
an index, means nothing. The rest of metadata is the API server's (resourceVersion, generation, uid,
managedFields, times) or never changes (name). What components write for themselves is left out.
"""

from collections.abc import Callable, Iterable
from importlib import resources
from typing import Final

import msgspec

from genguard.detection.changes import (
    MOST_LEAVES,
    Change,
    Item,
    Leaves,
    Part,
    PathNode,
    change_at,
    place_of,
    value_digest,
)
from genguard.detection.diff import Compared, compare
from genguard.detection.values import Shows, shown
from genguard.formats.documents import load_document
from genguard.objects.fields import Fields
from genguard.objects.metadata import ObjectMeta, read_owners

_METADATA: Final = "metadata"
LABELS: Final = "labels"
ANNOTATIONS: Final = "annotations"
FINALIZERS: Final = "finalizers"
OWNERS: Final = "ownerReferences"

BOOKKEEPING: Final = msgspec.convert(
    load_document(resources.files("genguard.detection").joinpath("bookkeeping.yaml").read_bytes()),
    dict[str, str],
)
"""Keys of labels and annotations that are not compared; bookkeeping.yaml explains them."""


def compare_metadata(
    old: ObjectMeta,
    new: ObjectMeta,
    *,
    earlier: Iterable[Compared | None],
    shows: Shows = Shows.NOTHING,
) -> Compared | None:
    """Compare the metadata of an object, as stored and as sent; None where it is equal.

    `earlier`: of the same write. `shows`: which values are kept beside digests.
    """
    if (
        old.annotations == new.annotations
        and old.labels == new.labels
        and old.finalizers == new.finalizers
        and old.owner_references == new.owner_references
    ):
        return None
    known = [one for one in earlier if one is not None]
    stored, sent = _fields(old), _fields(new)
    return compare(stored, sent, known, shows=shows, read=_read)


def _fields(metadata: ObjectMeta) -> Fields:
    found = {
        name: raw
        for name, raw in (
            (LABELS, metadata.labels),
            (ANNOTATIONS, metadata.annotations),
            (OWNERS, metadata.owner_references),
        )
        if not isinstance(raw, msgspec.UnsetType)
    }
    if metadata.finalizers:
        found[FINALIZERS] = msgspec.Raw(msgspec.json.encode(metadata.finalizers))
    return found


_texts_decoder: Final = msgspec.json.Decoder(dict[str, str | None] | None)
_names_decoder: Final = msgspec.json.Decoder(tuple[str, ...] | None)


def _read(parts: Iterable[Part], shows: Shows) -> Leaves:
    """Return the leaves that differ; raises msgspec.MsgspecError for values of another type."""
    found: list[Change] = []
    for name, *raw in parts:
        decode, field = _DECODED[name]
        old, new = (decode(one or b"null") for one in raw)
        at = place_of(_METADATA)[name]
        for key in {**old, **new}:
            before, after = old.get(key), new.get(key)
            if before == after or (not field and _is_bookkeeping(key)):
                continue
            if len(found) >= MOST_LEAVES:
                break
            if field:
                found.append(_item(at, (field, key, 0), before, after, shows))
            else:
                grew = _has_grown(before or "", after or "")
                found.append(change_at(at[key], before, after, shows, has_grown=grew))
    found.sort(key=lambda one: (one.pointer, one.key))
    return tuple(found)


def _item(at: PathNode, item: Item, before: str | None, after: str | None, shows: Shows) -> Change:
    """Return the change of an item of a set; all of them are at the pointer of the list.

    An item is shown as `true`: it is there or not.
    """
    below = at[item]
    old, new = (_item_shown(one, str(item[1]), shows) for one in (before, after))
    digests = value_digest(before), value_digest(after)
    return Change(below.path, at.pointer, *digests, below.salt, old, new)


def _item_shown(value: str | None, name: str, shows: Shows) -> str | None:
    if value is None or shows is Shows.NOTHING:
        return None
    if value:  # "controller", of an owner
        return f'"{value}"'
    return shown(name if shows is Shows.ALL else True, (), shows)


def _texts(raw: bytes) -> dict[str, str | None]:
    return _texts_decoder.decode(raw) or {}


def _finalizers(raw: bytes) -> dict[str, str | None]:
    return dict.fromkeys(_names_decoder.decode(raw) or (), "")


def _owners(raw: bytes) -> dict[str, str | None]:
    return {one.uid: "controller" if one.controller else "" for one in read_owners(raw)}


_DECODED: Final[dict[str, tuple[Callable[[bytes], dict[str, str | None]], str]]] = {
    LABELS: (_texts, ""),
    ANNOTATIONS: (_texts, ""),
    FINALIZERS: (_finalizers, "name"),
    OWNERS: (_owners, "uid"),
}
"""How each field is read, and what tells the items of a set apart."""


def _is_bookkeeping(key: str) -> bool:
    domain, slash, _ = key.partition("/")
    return key in BOOKKEEPING or domain + slash in BOOKKEEPING


def _has_grown(old: str, new: str) -> bool:
    """Whether the new value is the old one with something added at one place."""
    if not 0 < len(old) < len(new):
        return False
    same = _same_beginning(old, new)
    return new.endswith(old[same:])


def _same_beginning(old: str, new: str) -> int:
    """Return how many characters two texts have in common at their beginning."""
    low, high = 0, len(old)
    while low < high:
        middle = (low + high + 1) // 2
        if new.startswith(old[low:middle], low):
            low = middle
        else:
            high = middle - 1
    return low
