"""From a request to a prediction: which rule of which strategy answers.

Source of the order: apiserver pkg/registry/rest/create.go:BeforeCreate and update.go:BeforeUpdate
(the old generation is copied onto the new object before the strategy runs, so what a client or a
webhook sent never survives an update), pkg/registry/generic/registry/store.go:Delete.

An update counts where it changed anything that its kind counts. Equal bytes answer without
decoding: the API server writes object and oldObject with the same encoder, so most reviews never
reach a comparison of values.

Pods' subresources write part of the spec and count only that part: everything else in such a write
is thrown away before the comparison. Source: kubernetes pkg/registry/core/pod/strategy.go
(dropNonEphemeralContainerUpdates, dropNonResizeUpdates).

A DELETE may be graceful, or deferred by finalizers. Source: apiserver
pkg/registry/rest/delete.go:BeforeDelete and pkg/registry/generic/registry/store.go
(shouldOrphanDependents, shouldDeleteDependents, deletionFinalizersForGarbageCollection,
markAsDeleting).
"""

from typing import Any, Final

import msgspec

from genguard.admission.review import (
    NO_RAW,
    AdmissionRequest,
    GroupVersionKind,
    Operation,
    ReviewedObject,
)
from genguard.generation.custom import CustomResources, StatusSubresource
from genguard.generation.prediction import Cause, Prediction
from genguard.generation.strategy import (
    Equality,
    OnCreate,
    OnDelete,
    Propagation,
    Strategy,
    SubresourceRule,
)
from genguard.generation.table import GenerationTable
from genguard.objects.equality import field_code, same_raw, same_typed
from genguard.objects.fields import Fields
from genguard.objects.metadata import ObjectMeta

_RESIZABLE: Final = ("resources", "resizePolicy")


def _partly_changed(
    rule: SubresourceRule, kind: GroupVersionKind, new: ReviewedObject, old: ReviewedObject
) -> bool:
    """Whether a write of a pod's subresource changes the part of spec that it takes."""
    if new.spec == old.spec:
        return False
    before, after = _spec(old), _spec(new)
    merged = {**before, **_TAKEN[rule](before, after)}
    code = field_code(kind.group, kind.version, kind.kind, "spec")
    raws = [msgspec.Raw(msgspec.json.encode(fields)) for fields in (merged, before)]
    return not same_typed(code, *raws, nil_is_empty=True)


def _spec(pod: ReviewedObject) -> dict[str, Any]:
    raw = pod.spec
    spec = None if raw is None else msgspec.json.decode(raw)
    return spec if isinstance(spec, dict) else {}


def _resizable(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Return resources and resizePolicy, of the pod and of each container.

    Containers that were renamed, reordered, added or removed make the server keep the whole new
    spec, which validation then refuses; the comparison follows it there.
    """
    parts: dict[str, Any] = {"resources": after.get("resources")}
    for key in ("containers", "initContainers"):
        new, old = after.get(key) or [], before.get(key) or []
        if _names(new) != _names(old) or _names(new) is None:
            return after
        pairs = zip(new, old, strict=True)
        parts[key] = [{**was, **{name: now.get(name) for name in _RESIZABLE}} for now, was in pairs]
    return parts


def _names(containers: Any) -> list[Any] | None:
    """Names in order; None for what is no list of objects."""
    if isinstance(containers, list) and all(
        isinstance(container, dict) for container in containers
    ):
        return [container.get("name") for container in containers]
    return None


_TAKEN: Final = {
    SubresourceRule.EPHEMERAL_CONTAINERS: lambda _, after: {
        "ephemeralContainers": after.get("ephemeralContainers")
    },
    SubresourceRule.RESIZE: _resizable,
}
"""What a subresource takes of a pod's spec, from the stored one and the one that was sent."""
ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"
_GARBAGE_COLLECTION: Final = frozenset({ORPHAN, FOREGROUND})


class DeleteOptions(msgspec.Struct, frozen=True, rename="camel"):
    """The part of meta/v1 DeleteOptions that decides which finalizers remain."""

    propagation_policy: str | None = None
    orphan_dependents: bool | None = None


def predict_delete(strategy: Strategy, old: ObjectMeta, options: DeleteOptions) -> Prediction:
    """The generation an object shows after a DELETE, in its last or its terminating state."""
    generation = old.stored_generation
    counted = _cause(strategy, old, options)
    step = 1 if counted is Cause.DELETION_STARTED and generation > 0 else 0
    if counted is Cause.DELETION_STARTED and not step:
        counted = Cause.KEEPS_NONE  # 0 stays 0 (BeforeDelete and markAsDeleting both ask for > 0)
    return Prediction(generation + step or None, step, counted)


def _cause(strategy: Strategy, old: ObjectMeta, options: DeleteOptions) -> Cause:
    if old.deletion_timestamp is not None:
        return Cause.ALREADY_DELETING
    if strategy.on_delete is OnDelete.NEVER:
        return Cause.DELETE_KEEPS
    # The graceful branch writes deletionTimestamp even when the grace period is zero.
    if strategy.on_delete is OnDelete.GRACEFUL or remaining_finalizers(strategy, old, options):
        return Cause.DELETION_STARTED
    return Cause.REMOVED_AT_ONCE


def remaining_finalizers(
    strategy: Strategy, old: ObjectMeta, options: DeleteOptions
) -> tuple[str, ...]:
    """The finalizers after the garbage collector's two have been removed or added."""
    own = old.finalizers or ()
    kept = tuple(name for name in own if name not in _GARBAGE_COLLECTION)
    if strategy.propagation is Propagation.UNSUPPORTED:
        return kept
    if options.orphan_dependents is not None:
        return (*kept, ORPHAN) if options.orphan_dependents else kept
    match options.propagation_policy:
        case "Orphan":
            return (*kept, ORPHAN)
        case "Foreground":
            return (*kept, FOREGROUND)
        case "Background":
            return kept
    # No policy was asked for: the first of the two that the object carries decides, then its kind.
    for name in own:
        if name in _GARBAGE_COLLECTION:
            return (*kept, name)
    return (*kept, ORPHAN) if strategy.propagation is Propagation.ORPHAN else kept


_METADATA_CODES: Final = {"annotations": "{}value", "labels": "{}value"}


def counted_change(
    strategy: Strategy, kind: GroupVersionKind, new: ReviewedObject, old: ReviewedObject
) -> bool:
    """Tell whether this update moves generation, as the main strategy compares."""
    if strategy.equality is Equality.UNTYPED:
        return _untyped_change(strategy.excluded, new.fields, old.fields)
    for pointer in strategy.compare:
        first, _, rest = pointer.removeprefix("/").partition("/")
        if rest:
            a, b = _metadata_field(new.metadata, rest), _metadata_field(old.metadata, rest)
            code = _METADATA_CODES[rest]
        else:
            a, b = new.get(first), old.get(first)
            code = None
        if a == b:
            continue
        code = field_code(kind.group, kind.version, kind.kind, first) if code is None else code
        if not same_typed(code, a, b, nil_is_empty=strategy.equality is Equality.SEMANTIC):
            return True
    return False


def _untyped_change(excluded: frozenset[str], new: Fields, old: Fields) -> bool:
    keys = new.keys() | old.keys()
    return any(
        not same_raw(new.get(key), old.get(key)) for key in sorted(keys) if key not in excluded
    )


def _metadata_field(metadata: ObjectMeta, name: str) -> msgspec.Raw | None:
    raw = metadata.annotations if name == "annotations" else metadata.labels
    return None if isinstance(raw, msgspec.UnsetType) else raw


_options_decoder: Final = msgspec.json.Decoder(DeleteOptions | None)


class Engine:
    """Predicts generation with one server's table and the custom resources known by now."""

    def __init__(self, table: GenerationTable, custom: CustomResources) -> None:
        self.table: Final = table
        self.custom: Final = custom

    def strategy(self, request: AdmissionRequest) -> tuple[Strategy, StatusSubresource]:
        """The strategy of the request's resource, and where its status is written."""
        resource = request.wire.resource
        found = self.table.find(resource.group, resource.resource)
        if found is not None:
            has_status = "status" in found.subresources
            return found, StatusSubresource.PRESENT if has_status else StatusSubresource.ABSENT
        status, strategy = self.custom.find(resource.group, resource.version, resource.resource)
        return strategy, status

    def predict(self, request: AdmissionRequest) -> Prediction:
        """What the API server will make of generation.

        Raises msgspec.MsgspecError and RecursionError where a compared value cannot be decoded.
        """
        return predict_with(*self.strategy(request), request)


def predict_with(
    strategy: Strategy, status: StatusSubresource, request: AdmissionRequest
) -> Prediction:
    """The prediction of one strategy; see Engine.predict."""
    if strategy.on_create is OnCreate.NONE or request.operation is Operation.CONNECT:
        return Prediction(None, None, Cause.NOT_STORED)
    if request.operation is Operation.DELETE:
        return _on_delete(strategy, request)
    if request.subresource:
        return _on_subresource(strategy, request)
    if request.operation is Operation.CREATE:
        return _on_create(strategy, request)
    return _on_update(strategy, status, request)


def _on_create(strategy: Strategy, request: AdmissionRequest) -> Prediction:
    if not strategy.stores_what_is_sent:
        return Prediction(1, 1, Cause.CREATED)
    # Nothing on the way clears it (rest/meta.go:WipeObjectMetaSystemFields): stored as sent.
    sent = request.object.metadata.stored_generation if request.object else 0
    return Prediction(sent or None, 0, Cause.KEEPS_NONE, effective=True)


def _on_update(
    strategy: Strategy, status: StatusSubresource, request: AdmissionRequest
) -> Prediction:
    new, old = request.object, request.old_object
    if new is None or old is None:
        return Prediction(None, None, Cause.NO_OBJECT)
    generation = old.metadata.stored_generation
    # No update through kube-apiserver sets deletionTimestamp; other servers of the same API may.
    if new.metadata.deletion_timestamp is not None and old.metadata.deletion_timestamp is None:
        return _moved(generation, Cause.DELETION_STARTED) if generation else _kept(0, strategy)
    if not strategy.compare:
        return _kept(generation, strategy)
    if counted_change(strategy, request.wire.kind, new, old):
        return _moved(generation, Cause.SPEC_CHANGED)
    if status is StatusSubresource.UNKNOWN and not same_raw(new.status, old.status):
        return Prediction(None, None, Cause.UNKNOWN_STATUS_SUBRESOURCE)
    return _kept(generation, strategy)


def _on_subresource(strategy: Strategy, request: AdmissionRequest) -> Prediction:
    rule = strategy.subresources.get(request.subresource, SubresourceRule.KEEP)
    if rule is SubresourceRule.SCALE:
        return _on_scale(request)
    if rule is SubresourceRule.EVICT:
        # The Eviction names a pod without showing it; a first one deletes it gracefully.
        return Prediction(None, 1, Cause.EVICTED)
    new, old = request.object, request.old_object
    if new is None or old is None:
        # Binding, TokenRequest: their own objects, created and never stored.
        return Prediction(None, 0, Cause.SUBRESOURCE_KEEPS)
    generation = old.metadata.stored_generation
    if rule not in _TAKEN or not strategy.compare:
        return Prediction(generation or None, 0, Cause.SUBRESOURCE_KEEPS)
    if _partly_changed(rule, request.wire.kind, new, old):
        return _moved(generation, Cause.SPEC_CHANGED)
    return _kept(generation, strategy)


class _ScaleSpec(msgspec.Struct):
    replicas: int = 0


_scale_decoder: Final = msgspec.json.Decoder(_ScaleSpec)


def _on_scale(request: AdmissionRequest) -> Prediction:
    """A Scale carries no generation: only the step of its target can be told."""
    new, old = request.object, request.old_object
    if new is None or old is None:
        return Prediction(None, None, Cause.NO_OBJECT)
    replicas = [
        _scale_decoder.decode(raw).replicas if (raw := scale.spec) else 0 for scale in (new, old)
    ]
    if replicas[0] == replicas[1]:
        return Prediction(None, 0, Cause.NOTHING_COUNTED)
    return Prediction(None, 1, Cause.REPLICAS_CHANGED)


def _on_delete(strategy: Strategy, request: AdmissionRequest) -> Prediction:
    old = request.old_object
    if request.subresource or old is None:
        # A DELETE of a collection is reviewed once as a whole, then object by object.
        return Prediction(None, None, Cause.NO_OBJECT)
    raw = request.wire.options
    options = _options_decoder.decode(raw) if raw != NO_RAW else None
    return predict_delete(strategy, old.metadata, options or DeleteOptions())


def _moved(generation: int, cause: Cause) -> Prediction:
    return Prediction(generation + 1, 1, cause)


def _kept(generation: int, strategy: Strategy) -> Prediction:
    cause = Cause.NOTHING_COUNTED if strategy.keeps_generation else Cause.KEEPS_NONE
    return Prediction(generation or None, 0, cause)
