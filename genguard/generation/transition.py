"""From a request to a prediction: which rule of which strategy answers.

Source of the order: apiserver pkg/registry/rest/create.go:BeforeCreate and update.go:BeforeUpdate
(the old generation is copied onto the new object before the strategy runs, so what a client or a
webhook sent never survives an update), pkg/registry/generic/registry/store.go:Delete.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from genguard.admission.review import (
    NO_RAW,
    AdmissionRequest,
    GroupVersionKind,
    Operation,
    ReviewedObject,
)
from genguard.generation.comparison import counted_change
from genguard.generation.custom import CustomResources, StatusSubresource
from genguard.generation.deletion import DeleteOptions, predict_delete
from genguard.generation.pod_subresources import ephemeral_containers_change, resize_change
from genguard.generation.prediction import Cause, Prediction
from genguard.generation.strategy import OnCreate, Strategy, SubresourceRule
from genguard.generation.table import GenerationTable
from genguard.objects.equality import same_raw

_Comparison = Callable[[GroupVersionKind, ReviewedObject, ReviewedObject], bool]

_options_decoder: Final = msgspec.json.Decoder(DeleteOptions | None)
_PARTIAL: Final[dict[SubresourceRule, _Comparison]] = {
    SubresourceRule.EPHEMERAL_CONTAINERS: ephemeral_containers_change,
    SubresourceRule.RESIZE: resize_change,
}


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
    comparison = _PARTIAL.get(rule)
    if comparison is None or not strategy.compare:
        return Prediction(generation or None, 0, Cause.SUBRESOURCE_KEEPS)
    if comparison(request.wire.kind, new, old):
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
        _scale_decoder.decode(raw).replicas if (raw := one.spec) else 0 for one in (new, old)
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
