"""When Argo CD takes a HorizontalPodAutoscaler for healthy.

Source: health_hpa.go in gitops-engine pkg/health. Version 2 has conditions; version 1 carries them
as JSON in an annotation, which Go's encoding/json reads: keys in any case, the last one counts,
null leaves a field as it was, and a wrong type is an error even if a right one follows.
"""

import json
from typing import Any, Final

from webhook.status.views.argo.health import ArgoHealth, healthy_if
from webhook.status.views.reading import TypeMismatchError
from webhook.status.views.typed import Typed

ANNOTATION: Final = "autoscaling.alpha.kubernetes.io/conditions"
_PATH: Final = f"metadata.annotations[{ANNOTATION!r}]"
_LONG_S: Final = "\u017f"
"""The only other letter that Go folds into one of these names."""
_FIELDS: Final = ("type", "status", "reason", "message")


def autoscaler_v2(it: Typed) -> ArgoHealth:
    """By `status.conditions`."""
    return _scaling(it.get("status", {}).get("conditions", []))


def autoscaler_v1(it: Typed) -> ArgoHealth:
    """By the annotation; raises TypeMismatchError where Argo CD cannot read it."""
    return _scaling(_annotated(it))


def _scaling(conditions: list[Typed]) -> ArgoHealth:
    if any(c.get("reason") in _UNSCALABLE.get(c.get("type", ""), ()) for c in conditions):
        return ArgoHealth.DEGRADED
    scaling = (c for c in conditions if c.get("status") == "True")
    return healthy_if(any(c.get("type") in ("AbleToScale", "ScalingLimited") for c in scaling))


_UNSCALABLE: Final = {
    "AbleToScale": {"FailedGetScale", "FailedUpdateScale"},
    "ScalingActive": {
        "FailedGetResourceMetric",
        "FailedGetObjectMetric",
        "FailedGetPodsMetric",
        "FailedGetExternalMetric",
        "FailedComputeMetricsReplicas",
        "InvalidSelector",
    },
}


def _annotated(it: Typed) -> list[Typed]:
    written = it.get("metadata", {}).get("annotations", {}).get(ANNOTATION)
    if written is None:
        return []
    try:
        # The standard decoder takes lone surrogates and numbers of any size, as Go's does.
        found = json.loads(
            written, object_pairs_hook=_object, parse_int=float, parse_constant=_refuse
        )
    except (ValueError, RecursionError) as error:
        raise TypeMismatchError(_PATH) from error
    if not isinstance(found, list | None) or not all(map(_fits, found or [])):
        raise TypeMismatchError(_PATH)
    return [condition or {} for condition in found or []]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for key, value in pairs:
        name = key.replace(_LONG_S, "s").lower()
        if value is not None and isinstance(fields.get(name, ""), str):
            fields[name] = value
    return fields


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _fits(condition: Any) -> bool:
    return condition is None or (
        isinstance(condition, dict)
        and all(isinstance(condition.get(field, ""), str) for field in _FIELDS)
    )
