"""Pods' subresources that write part of the spec and count only that part.

Source: kubernetes pkg/registry/core/pod/strategy.go (dropNonEphemeralContainerUpdates,
dropNonResizeUpdates): everything else in such a write is thrown away before the comparison.
"""

from typing import Any, Final

import msgspec

from genguard.admission.review import GroupVersionKind, ReviewedObject
from genguard.objects.typed_equality import field_code, same_typed

_RESIZABLE: Final = ("resources", "resizePolicy")


def ephemeral_containers_change(
    kind: GroupVersionKind, new: ReviewedObject, old: ReviewedObject
) -> bool:
    """`pods/ephemeralcontainers`: only spec.ephemeralContainers is taken from the request."""
    return _spec_changes(
        kind, old, lambda spec: {"ephemeralContainers": spec.get("ephemeralContainers")}, new
    )


def resize_change(kind: GroupVersionKind, new: ReviewedObject, old: ReviewedObject) -> bool:
    """`pods/resize`: only resources and resizePolicy, of the pod and of each container.

    Containers that were renamed, reordered, added or removed make the server keep the whole new
    spec, which validation then refuses; the comparison follows it there.
    """
    return _spec_changes(kind, old, _resizable(_spec(old)), new)


def _spec(pod: ReviewedObject) -> dict[str, Any]:
    raw = pod.spec
    spec = None if raw is None else msgspec.json.decode(raw)
    return spec if isinstance(spec, dict) else {}


def _spec_changes(
    kind: GroupVersionKind, old: ReviewedObject, taken: Any, new: ReviewedObject
) -> bool:
    if new.spec == old.spec:
        return False
    before, after = _spec(old), _spec(new)
    merged = {**before, **taken(after)}
    code = field_code(kind.group, kind.version, kind.kind, "spec")
    return not same_typed(code, merged, before, nil_is_empty=True)


def _resizable(before: dict[str, Any]) -> Any:
    def taken(after: dict[str, Any]) -> dict[str, Any]:
        lists = ("containers", "initContainers")
        parts: dict[str, Any] = {"resources": after.get("resources")}
        for key in lists:
            new, old = after.get(key) or [], before.get(key) or []
            if _names(new) != _names(old) or _names(new) is None:
                return after
            parts[key] = _merge(new, old)
        return parts

    return taken


def _names(containers: Any) -> list[Any] | None:
    """Names in order; None for what is no list of objects."""
    if isinstance(containers, list) and all(isinstance(one, dict) for one in containers):
        return [one.get("name") for one in containers]
    return None


def _merge(after: list[Any], before: list[Any]) -> list[Any]:
    return [
        {**old, **{field: new.get(field) for field in _RESIZABLE}}
        for new, old in zip(after, before, strict=True)
    ]
