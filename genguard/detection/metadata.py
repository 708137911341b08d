"""Which labels, annotations, finalizers and owners of an object differ, as digests.

A label or an annotation is compared by its key, a finalizer by its name, an owner by its uid and
whether it is the controller. Finalizers and owners are sets to their writers: their order, and so
an index, means nothing. The rest of metadata is the API server's (resourceVersion, generation, uid,
managedFields, times) or never changes (name). Bookkeeping of components is left out.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

import msgspec

from genguard.detection.changes import MOST_LEAVES, Leaves, by_pointer, changes, item_name
from genguard.detection.diff import Diff, compare
from genguard.detection.values import Shows, digest_of
from genguard.detection.write import NAMES
from genguard.objects.fields import Fields, Path, fields_of, to_pointer
from genguard.objects.metadata import ObjectMeta, read_owners

LABELS: Final = "labels"
ANNOTATIONS: Final = "annotations"
FINALIZERS: Final = "finalizers"
OWNERS: Final = "ownerReferences"
_TEXTS: Final = (LABELS, ANNOTATIONS)
TOLD: Final = (*_TEXTS, OWNERS, FINALIZERS)
_told: Final = attrgetter("labels", "annotations", "owner_references", "finalizers")

BOOKKEEPING: Final = NAMES["bookkeeping"]
"""Keys of labels and annotations that are not compared."""


def compare_metadata(
    old: ObjectMeta, new: ObjectMeta, earlier: Sequence[Diff], *, shows: Shows
) -> Diff | None:
    """Compare the metadata of an object, as stored and as sent; None where it is equal.

    `earlier`: of the same write. `shows`: which values are kept beside digests.
    """
    stored, sent = _told(old), _told(new)
    if stored == sent:
        return None
    return compare(_fields(stored), _fields(sent), earlier, shows=shows, read=_read)


def created_metadata(new: ObjectMeta, earlier: Sequence[Diff], *, reads: bool) -> Diff:
    """Return the same of a creation; without leaves where they are not read.

    They name the map or the list alone: replicas share them, and nothing of it is contested yet.
    """
    known = [diff for diff in earlier if diff.changes or not reads]
    return compare({}, _fields(_told(new)), known, read=_read_maps if reads else lambda *_: ())


def _read_maps(old: Fields, new: Fields, shows: Shows) -> Leaves:
    return tuple(
        msgspec.structs.replace(
            change,
            key=(*change.key[:2], digest_of(str(change.key).encode())),
            pointer=to_pointer(change.key[:2]),
        )
        for change in _read(old, new, shows)
    )


def _fields(told: tuple[Any, ...]) -> Fields:
    *raws, finalizers = told
    names = msgspec.Raw(msgspec.json.encode(finalizers)) if finalizers else None
    return {name: raw for name, raw in zip(TOLD, (*raws, names), strict=True) if raw}


def _read(old: Fields, new: Fields, shows: Shows) -> Leaves:
    """Return the leaves that differ; raises msgspec.MsgspecError for values of another type."""
    old_texts, new_texts = (
        {key: raw for key, raw in fields.items() if key in _TEXTS} for fields in (old, new)
    )
    texts = changes(old_texts, new_texts, shows, within="metadata")
    is_cut = len(texts) == MOST_LEAVES
    # It may be told that an item of a set is there, except in a Secret.
    marks = shows if shows is Shows.NOTHING else Shows.ALL
    items = changes(_sets(old, shows), _sets(new, shows), marks, within="metadata")
    found = [text for text in texts if is_cut or _is_told(text.key)]
    found += [msgspec.structs.replace(item, pointer=to_pointer(item.key[:2])) for item in items]
    return tuple(sorted(found, key=by_pointer)[:MOST_LEAVES])


_names_decoder: Final = msgspec.json.Decoder(tuple[str, ...] | None)


def _sets(fields: Fields, shows: Shows) -> Fields:
    """Return finalizers and owners as objects by what tells them apart.

    The value of an item is its name where all may be shown, `true` elsewhere.
    """
    is_named = shows is Shows.ALL
    names = _names_decoder.decode(fields.get(FINALIZERS, b"null")) or ()
    owners = read_owners(fields.get(OWNERS, b"null"))
    finalizers = {item_name("name", name): name if is_named else True for name in names}
    uids = {
        item_name("uid", owner.uid): "controller"
        if owner.controller
        else owner.uid
        if is_named
        else True
        for owner in owners
    }
    return fields_of({FINALIZERS: finalizers or None, OWNERS: uids or None})


def _is_told(key: Path) -> bool:
    """Whether a leaf is a label or an annotation, and no bookkeeping."""
    _, _, *name = map(str, key)
    domain, slash, _ = "".join(name).partition("/")
    return bool(name) and name[0] not in BOOKKEEPING and domain + slash not in BOOKKEEPING
