"""What a delete makes of an object: its finalizers, its time to end, its generation."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from genguard.generation.strategy import OnDelete
from genguard.generation.transition import DeleteOptions, predict_delete, remaining_finalizers
from genguard.objects.metadata import ObjectMeta
from genguard.testing.preparing import Document, timestamp
from genguard.testing.refusals import bad_request, conflict, invalid
from genguard.testing.resources import DEFINITIONS, Resource

_SECONDS_OF_GRACE: Final = 30


def end(resource: Resource, document: Document, options: Mapping[str, Any], now: datetime) -> bool:
    """Make of a document what a delete leaves of it; return whether nothing stays.

    Raise RequestRefusedError for options that cannot be read or do not hold.
    """
    asked = _read_options(options)
    metadata = document["metadata"]
    _check_preconditions(resource, metadata, options)
    meta = msgspec.json.decode(msgspec.json.encode(metadata), type=ObjectMeta)
    finalizers = list(remaining_finalizers(resource.strategy, meta, asked))
    if resource.key == DEFINITIONS and meta.deletion_timestamp is None:
        finalizers = list(meta.finalizers or ())  # its first DELETE has code of its own
    prediction = predict_delete(resource.strategy, meta, asked)
    grace = _grace(resource, document, options)
    was_deleting = "deletionTimestamp" in metadata
    waits = _waits(resource, document)
    until = metadata.get("deletionGracePeriodSeconds", 0)
    if was_deleting and (waits or (until and grace >= until)):
        return False
    metadata.pop("finalizers", None)
    if finalizers:
        metadata["finalizers"] = finalizers
    if was_deleting and grace >= until and (grace or finalizers):
        return False  # it ends already, and no later than is asked now
    if prediction.generation is not None:
        metadata["generation"] = prediction.generation
    if not was_deleting or grace < until:
        metadata["deletionTimestamp"] = timestamp(now, grace)
        metadata["deletionGracePeriodSeconds"] = grace
    if resource.strategy.on_delete is OnDelete.NEVER and waits:
        metadata.pop("deletionGracePeriodSeconds")
        document.setdefault("status", {})["phase"] = "Terminating"
    return not (grace or metadata.get("finalizers") or waits)


def is_over(resource: Resource, document: Document) -> bool:
    """Whether the last finalizer of an object that is being deleted is gone."""
    metadata = document["metadata"]
    return "deletionTimestamp" in metadata and not (
        metadata.get("finalizers")
        or metadata.get("deletionGracePeriodSeconds")
        or _waits(resource, document)
    )


def _waits(resource: Resource, document: Document) -> bool:
    """Whether a namespace has finalizers of its own."""
    return resource.key == ("", "namespaces") and bool(document["spec"].get("finalizers"))


def _check_preconditions(
    resource: Resource, metadata: Document, options: Mapping[str, Any]
) -> None:
    wanted = options.get("preconditions") or {}
    for name, text in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        if wanted.get(name) and wanted[name] != metadata[name]:
            why = (
                f"Precondition failed: {text} in precondition: {wanted[name]}, {text} in "
                f"object meta: {metadata[name]}"
            )
            raise conflict(resource.name, metadata["name"], why)


def _grace(resource: Resource, document: Document, options: Mapping[str, Any]) -> int:
    """Return how many seconds an object is given to end; only Pods are given any.

    Source: kubernetes pkg/registry/core/pod/strategy.go:CheckGracefulDelete.
    """
    if resource.key != ("", "pods"):
        return 0
    spec = document.get("spec") or {}
    finished = (document.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    if not spec.get("nodeName") or finished:
        return 0
    asked = options.get("gracePeriodSeconds")
    if type(asked) is int:
        return max(asked, 0) if asked >= 0 else 1
    return int(spec.get("terminationGracePeriodSeconds", _SECONDS_OF_GRACE))


def _read_options(options: Mapping[str, Any]) -> DeleteOptions:
    try:
        found = msgspec.convert(dict(options), DeleteOptions)
    except msgspec.ValidationError as error:
        raise bad_request(f"DeleteOptions cannot be read: {error}") from error
    if found.propagation_policy not in (None, "Orphan", "Background", "Foreground"):
        raise invalid(
            'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Invalid value: '
            f'"{found.propagation_policy}": must be one of Background, Foreground, Orphan'
        )
    if found.propagation_policy is not None and found.orphan_dependents is not None:
        raise invalid(
            'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Invalid value: '
            "orphanDependents and deletionPropagation cannot be both set"
        )
    return found
