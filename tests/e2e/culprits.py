"""Webhooks that clobber status, as operators have been seen to do, and objects for them to hit."""

from collections.abc import Mapping
from typing import Any

from tests.controlplane.fixtures import WORKER
from tests.controlplane.webhook_listener import Patch

OLD_OPERATOR = f"mmm-old-operator{WORKER}"
"""Sorts between genguard's two mutating registrations; one of each worker of a run."""


def zeroes_observed_generation(request: Mapping[str, Any]) -> Patch:
    """Round-trips the status through a Go type of its own, whose field is always written."""
    if request["operation"] != "UPDATE" or "status" not in request["object"]:
        return ()
    return [{"op": "add", "path": "/status/observedGeneration", "value": 0}]


def removes_observed_generation(request: Mapping[str, Any]) -> Patch:
    """Round-trips the status through a Go type that does not know the field."""
    if request["operation"] != "UPDATE":
        return ()
    if "observedGeneration" not in (request["object"].get("status") or {}):
        return ()
    return [{"op": "remove", "path": "/status/observedGeneration"}]


def pod(name: str = "one", **annotations: str) -> dict[str, Any]:
    """A pod; annotations without their prefix, `terminates_after="1s"`: see Options.kwok_nodes."""
    marked = {f"genguard.io/test-{key.replace('_', '-')}": v for key, v in annotations.items()}
    container = {"name": "c", "image": "image:1", "resources": {"requests": {"cpu": "100m"}}}
    return {
        "metadata": {"name": name, "labels": {"app": "a"}, "annotations": marked},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 30},
    }


def deployment(name: str = "web", replicas: int = 2, image: str = "image:1") -> dict[str, Any]:
    """A Deployment that any cluster can run."""
    container = {"name": "c", "image": image}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
    selector = {"matchLabels": {"app": name}}
    return {
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": selector, "template": template},
    }


def is_ready(found: Mapping[str, Any]) -> bool:
    """Whether a pod's condition Ready is True."""
    conditions = found["status"].get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
