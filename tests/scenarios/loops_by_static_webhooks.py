"""Loops that a webhook in a file of the API server makes before anybody sees the request."""

from collections.abc import Mapping
from typing import Any

from tests.controlplane.webhook_listener import Patch
from tests.scenarios.catalogue import scenario
from tests.scenarios.scene import Scene, StaticHook


def pins_observed_generation(request: Mapping[str, Any]) -> Patch:
    """Answers each status with the same number."""
    if request["operation"] != "UPDATE" or "status" not in request["object"]:
        return ()
    return [{"op": "add", "path": "/status/observedGeneration", "value": 1}]


def _suspends(request: Mapping[str, Any]) -> Patch:
    if request["operation"] != "UPDATE":
        return ()
    return [{"op": "add", "path": "/spec/suspend", "value": True}]


@scenario(StaticHook("pins.static.k8s.io", pins_observed_generation, ("widgets/status",)))
def observed_generation_pinned_by_a_static_webhook(scene: Scene) -> None:
    widget = scene.widget()
    for size in range(2, 11):  # the controller does all it can
        made = widget.spec("deployer", size=size)
        seen = made["metadata"]["generation"]
        widget.status("widget-controller", observedGeneration=seen, replicas=size)
        widget.status("widget-controller", observedGeneration=seen, lastRun=str(scene.tick()))
        scene.pause(0.2)


@scenario(
    StaticHook(
        "suspends.static.k8s.io",
        _suspends,
        ("widgets",),
        {
            "matchConditions": [
                {"name": "gitops", "expression": "request.userInfo.username == 'gitops'"}
            ]
        },
    )
)
def suspended_by_a_static_webhook_and_resumed_by_an_operator(scene: Scene) -> None:
    widget = scene.widget(suspend=False)
    for _ in range(8):  # gitops asks for another size, and for nothing else
        widget.spec("gitops", size=scene.tick() + 100)
        scene.pause(0.1)
        widget.spec("batch-operator", suspend=False)
        scene.pause(0.1)
