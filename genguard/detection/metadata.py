"""Which labels, annotations, finalizers and owners of an object differ, as digests.

A label or an annotation is compared by its key, a finalizer by its name, an owner by its uid and
whether it is the controller. Finalizers and owners are sets to their writers: their order, and so
an index, means nothing. The rest of metadata is the API server's (resourceVersion, generation, uid,
managedFields, times) or never changes (name). What components write for themselves is left out.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

import msgspec

from genguard.detection.changes import (
    MOST_LEAVES,
    Change,
    Leaves,
    Part,
    PathNode,
    change_at,
    place_of,
    value_digest,
)
from genguard.detection.diff import Compared, compare
from genguard.detection.values import Shows, shown
from genguard.objects.fields import Fields, Path
from genguard.objects.metadata import ObjectMeta, read_owners

_METADATA: Final = "metadata"
LABELS: Final = "labels"
ANNOTATIONS: Final = "annotations"
FINALIZERS: Final = "finalizers"
OWNERS: Final = "ownerReferences"

BOOKKEEPING: Final = {
    # What a component keeps there for itself, or moves for as long as all goes well.
    "autoscaling.alpha.kubernetes.io/": "kubernetes pkg/apis/autoscaling/annotations.go",
    "cluster-autoscaler.kubernetes.io/last-updated": (
        "autoscaler cluster-autoscaler/clusterstate/utils/status.go:ConfigMapLastUpdatedKey"
    ),
    "control-plane.alpha.kubernetes.io/leader": (
        "client-go tools/leaderelection/resourcelock/interface.go:LeaderElectionRecordAnnotationKey"
    ),
    "deployment.kubernetes.io/": (
        "kubernetes pkg/controller/deployment/util/deployment_util.go:RevisionAnnotation"
    ),
    "deprecated.daemonset.template.generation": (
        "kubernetes staging/src/k8s.io/api/apps/v1/types.go:DeprecatedTemplateGeneration"
    ),
    "endpoints.kubernetes.io/last-change-trigger-time": (
        "kubernetes staging/src/k8s.io/api/core/v1/annotation_key_constants.go"
    ),
    "genguard.io/": "genguard/admission/probe.py",
    "kubectl.kubernetes.io/": (
        "kubernetes staging/src/k8s.io/api/core/v1/annotation_key_constants.go"
    ),
    "kubernetes.io/change-cause": (
        "kubernetes staging/src/k8s.io/kubectl/pkg/polymorphichelpers/history.go"
    ),
    "node.alpha.kubernetes.io/ttl": (
        "kubernetes staging/src/k8s.io/api/core/v1/annotation_key_constants.go"
    ),
    # Somebody sets it to ask for something, and whoever has done it takes it away.
    "argocd.argoproj.io/hydrate": "argo-cd pkg/apis/application/v1alpha1/types.go",
    "argocd.argoproj.io/refresh": "argo-cd pkg/apis/application/v1alpha1/types.go",
    "reconcile.fluxcd.io/requestedAt": "fluxcd/pkg apis/meta/annotations.go",
    "volume.kubernetes.io/selected-node": (
        "kubernetes pkg/controller/volume/persistentvolume/pv_controller.go:AnnSelectedNode"
    ),
}
"""Keys of labels and annotations that are not compared, with their source; all keys of a domain
where it ends in "/"."""


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
_NULL: Final = b"null"


def _read(parts: Iterable[Part], shows: Shows) -> tuple[Leaves, tuple[Path, ...]]:
    """Return the leaves that differ, and those of them whose stored value has grown.

    Raises msgspec.MsgspecError for values of another type.
    """
    found: list[Change] = []
    grown: list[Path] = []
    for name, old, new in parts:
        at, before, after = place_of(_METADATA)[name], old or _NULL, new or _NULL
        if name in (LABELS, ANNOTATIONS):
            left, right = (_texts_decoder.decode(one) or {} for one in (before, after))
            changed = _texts(at, left, right, grown, shows)
        elif name == FINALIZERS:
            changed = _items(at, "name", _finalizers(before), _finalizers(after), shows)
        else:
            changed = _items(at, "uid", _owners(before), _owners(after), shows)
        found += islice(changed, MOST_LEAVES - len(found))
    found.sort(key=lambda one: (one.pointer, one.key))
    return tuple(found), tuple(grown)


def _texts(
    at: PathNode,
    old: dict[str, str | None],
    new: dict[str, str | None],
    grown: list[Path],
    shows: Shows,
) -> Iterator[Change]:
    """Yield the keys whose values differ, and note which of the values have grown."""
    for key in {**old, **new}:
        before, after = old.get(key), new.get(key)
        if before == after or _is_bookkeeping(key):
            continue
        below = at[key]
        yield change_at(below, before, after, shows)
        if before and after and _has_grown(before, after):
            grown.append(below.path)


def _items(
    at: PathNode, field: str, old: dict[str, str], new: dict[str, str], shows: Shows
) -> Iterator[Change]:
    """Yield the items of a list that differ; all of them are at the pointer of the list.

    An item is shown as `true`: it is there or not.
    """
    for name in {**old, **new}:
        before, after = old.get(name), new.get(name)
        if before != after:
            below = at[field, name, 0]
            values = [_item_shown(one, name, shows) for one in (before, after)]
            old_digest, new_digest = value_digest(before), value_digest(after)
            yield Change(below.path, at.pointer, old_digest, new_digest, below.salt, *values)


def _item_shown(value: str | None, name: str, shows: Shows) -> str | None:
    if value is None or shows is Shows.NOTHING:
        return None
    if value:  # "controller", of an owner
        return f'"{value}"'
    return shown(name if shows is Shows.ALL else True, (), shows)


def _finalizers(raw: bytes | msgspec.Raw) -> dict[str, str]:
    return dict.fromkeys(_names_decoder.decode(raw) or (), "")


def _owners(raw: bytes | msgspec.Raw) -> dict[str, str]:
    return {one.uid: "controller" if one.controller else "" for one in read_owners(raw)}


def _is_bookkeeping(key: str) -> bool:
    domain, slash, _ = key.partition("/")
    return key in BOOKKEEPING or domain + slash in BOOKKEEPING


def _has_grown(old: str, new: str) -> bool:
    """Whether the new value is the old one with something added at one place."""
    if len(new) <= len(old):
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
