"""Which labels, annotations, finalizers and owners of an object differ, as digests.

A label or an annotation is compared by its key, a finalizer by its name, an owner by its uid and
whether it is the controller. Finalizers and owners are sets to their writers: their order, and so
an index, means nothing. The rest of metadata is the API server's (resourceVersion, generation, uid,
managedFields, times) or never changes (name). What components write for themselves is left out.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, Self

import msgspec

from genguard.detection.changes import MOST_LEAVES, Change, Leaves, Part, PathNode, place_of
from genguard.detection.diff import NO_DIFF, NOT_COMPARED, Compared, Comparer, Diff, between
from genguard.detection.digest import Digest, digest_of
from genguard.detection.values import Shows, shown
from genguard.objects.fields import Fields
from genguard.objects.metadata import ObjectMeta
from genguard.objects.owners import read_owners
from genguard.objects.pointer import Path

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
    "genguard.io/": "genguard/rules/shadow_generation.py",
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


class MetadataDiffs(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What differs in the metadata of one write: the same differences as a Write has of the rest.

    requested      what the requester changed of what was stored; None without an intent
    webhook        what other webhooks changed of the request; None without an intent
    reinvocation   what they changed once more when they were reinvoked
    admitted       what would be stored, compared with what was
    grown          labels and annotations to whose stored value webhooks added something
    before, after  digests of what is stored, and of what would be; None where nothing differs, for
                   then they were not made
    """

    requested: Diff | None
    webhook: Diff | None
    reinvocation: Diff
    admitted: Diff
    grown: tuple[Path, ...]
    before: Digest | None
    after: Digest | None

    @property
    def is_mutated(self) -> bool:
        """Whether other webhooks changed it, when called or when called again."""
        return bool(self.webhook or self.reinvocation)

    def diffs(self) -> list[Diff]:
        """Return the differences that have leaves, each once."""
        found: list[Diff] = []
        for one in (self.requested, self.webhook, self.reinvocation, self.admitted):
            if one is not None and one.changes and not any(one is other for other in found):
                found.append(one)
        return found

    def without_leaves(self) -> Self:
        """Return what is kept where there is no room for the leaves."""
        return msgspec.structs.replace(
            self,
            requested=NOT_COMPARED if self.requested else self.requested,
            webhook=NOT_COMPARED if self.webhook else self.webhook,
            reinvocation=NOT_COMPARED if self.reinvocation else NO_DIFF,
            admitted=NOT_COMPARED if self.admitted else NO_DIFF,
            grown=(),
        )


SAME_METADATA: Final = MetadataDiffs(NO_DIFF, NO_DIFF, NO_DIFF, NO_DIFF, (), None, None)
"""Of a write in which every phase shows the metadata that is stored."""


def compare_metadata(
    comparer: Comparer,
    name: str,
    old: ObjectMeta,
    new: ObjectMeta,
    now: float,
    *,
    earlier: Iterable[Compared | None],
    leaves: bool,
    shows: Shows = Shows.NOTHING,
) -> Compared | None:
    """Compare the metadata of the object `name`, as stored and as sent; None where it is equal.

    Without `leaves`, only whether anything differs. `earlier`: of the same write. `shows`: which
    values are kept beside digests.
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
    return comparer.compare(name, stored, sent, now, known, leaves=leaves, shows=shows, read=_read)


def join_metadata(
    asked: Compared | None, rounds: Sequence[Compared], last: Compared
) -> MetadataDiffs:
    """Join what each phase of one write shows; `asked` is None where no intent can be told."""
    first = rounds[0] if rounds else None
    made = None if asked is None or first is None else between(asked, first)
    are_rounds = asked is not None and len(rounds) == 2  # noqa: PLR2004 - of two writes otherwise
    again = between(*rounds) if are_rounds else None
    sent = set(() if asked is None else asked.grown)
    return MetadataDiffs(
        requested=None if asked is None else asked.diff,
        webhook=made,
        reinvocation=again or NO_DIFF,
        admitted=last.diff,
        grown=() if made is None else tuple(one for one in rounds[-1].grown if one not in sent),
        before=last.before,
        after=last.after,
    )


def unchanged(digest: Digest) -> Compared:
    """Return the comparison of a phase that leaves the stored metadata, with this digest."""
    return Compared(digest, digest, NO_DIFF)


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
        yield Change(
            below.path,
            below.pointer,
            _digest(before),
            _digest(after),
            below.salt,
            shown(before, below.path, shows),
            shown(after, below.path, shows),
        )
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
            yield Change(
                below.path, at.pointer, _digest(before), _digest(after), below.salt, *values
            )


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


def _digest(value: str | None) -> Digest | None:
    return None if value is None else digest_of(value.encode())


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
