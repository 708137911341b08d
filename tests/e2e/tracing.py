"""Runs `genguard trace` as a process of its own, and webhooks for it to find."""

import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from tests.controlplane.client import wait_until
from tests.controlplane.plane import ControlPlane
from tests.controlplane.webhook_listener import Patch, WebhookListener, no_patch
from tests.e2e.culprits import zeroes_observed_generation
from tests.e2e.verbs import Verb

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
WATCHED = ["deployments", "deployments/status"]


def annotates(request: Mapping[str, Any]) -> Patch:
    """A well-behaved webhook."""
    if (request["object"]["metadata"].get("annotations") or {}).get("example.org/seen"):
        return ()
    if not request["object"]["metadata"].get("annotations"):
        value: Any = {"example.org/seen": "yes"}
        return [{"op": "add", "path": "/metadata/annotations", "value": value}]
    return [{"op": "add", "path": "/metadata/annotations/example.org~1seen", "value": "yes"}]


def counts_up(request: Mapping[str, Any]) -> Patch:
    """Changes status, but not what was observed."""
    if request.get("subResource") != "status":
        return ()
    count = request["object"]["status"].get("collisionCount", 0) + 1
    return [{"op": "add", "path": "/status/collisionCount", "value": count}]


def clobbers(request: Mapping[str, Any]) -> Patch:
    return zeroes_observed_generation(request) if request.get("subResource") == "status" else ()


FIVE: dict[str, Callable[[Mapping[str, Any]], Patch]] = {
    "aaa-first": no_patch,
    "mmm-old": annotates,
    "mmm-old--operator": clobbers,  # hardly anything sorts between it and the one before
    "mmm-old-operator": counts_up,
    "zzz-last": no_patch,
}
CULPRIT = "mmm-old--operator"


@contextmanager
def five_webhooks(plane: ControlPlane, namespace: str) -> Iterator[None]:
    with ExitStack() as stack:
        for name, patch in FIVE.items():
            listener = stack.enter_context(WebhookListener(plane.authority, patch))
            stack.enter_context(listener.registered(plane, namespace, WATCHED, name=name))
        yield


def trace(
    plane: ControlPlane, *arguments: str, yes: bool = True, stdin: int = subprocess.DEVNULL
) -> Verb:
    """One run; `with trace(plane, "deploy/web", ...) as run: run.report()`."""
    flags = ["-o", "json", *(["--yes"] if yes else [])]
    return Verb(plane, "trace", *flags, *arguments, stdin=stdin)


def observers(plane: ControlPlane) -> list[str]:
    """The names of all that a trace has registered, in the order of calls."""
    params = {"labelSelector": "genguard.io/trace"}
    found = plane.client.get(CONFIGURATIONS, params=params).body["items"]
    return sorted(one["metadata"]["name"] for one in found)


def wait_for_observers(plane: ControlPlane, run: Verb, count: int) -> list[str]:
    def registered() -> list[str] | None:
        if not run.runs:
            raise RuntimeError(run.end().err)
        found = observers(plane)
        return found if len(found) == count else None

    return wait_until(registered, what="observers")
