"""Plays a scenario: its webhooks and a real, watching genguard registered in its namespace."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple

import yaml

from tests.controlplane.client import wait_until
from tests.controlplane.plane import ControlPlane
from tests.controlplane.webhook_listener import WebhookListener
from tests.e2e.audit import AuditTrail
from tests.e2e.genguard import RECORD, Genguard
from tests.e2e.registrations import registered, rule
from tests.scenarios.catalogue import Scenario
from tests.scenarios.policies import bound
from tests.scenarios.recording import DEFINITIONS
from tests.scenarios.scene import Scene

_WRITES = ["CREATE", "UPDATE"]
CUSTOM = (
    rule(["widgets", "widgets/status", "gauges", "lenses"], _WRITES, "example.org"),
    rule(["widgets", "gauges"], ["DELETE"], "example.org"),
    rule(["configmaps", "secrets", "serviceaccounts", "nodes"], _WRITES, ""),
    rule(["endpointslices"], _WRITES, "discovery.k8s.io"),
)
"""What the registrations watch besides what the manifests say."""
_API = "/apis/admissionregistration.k8s.io/v1"
_REGISTRATIONS = {
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
}


class Played(NamedTuple):
    """What `genguard serve --record` kept, the audit log, and the registrations that were there."""

    reviews: bytes
    events: list[dict[str, Any]]
    configurations: list[dict[str, Any]]


def define(plane: ControlPlane) -> None:
    """The custom resources of definitions.yaml are served from now on; others may need them too."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    items = yaml.load(DEFINITIONS.read_text(), yaml.CSafeLoader)["items"]
    for item in items:
        plane.client.post(path, item, check=False)  # it may be there
    for item in items:
        names = item["spec"]["names"]
        for version in item["spec"]["versions"]:
            at = f"/apis/example.org/{version['name']}"
            path = f"{at}/{names['plural']}"
            wait_until(lambda path=path: plane.client.get(path).body, what=f"{path} served")
            # What reads its schemas too gets 404 for up to a second more.
            wait_until(
                lambda at=at, kind=names["kind"]: kind in _described(plane, at),
                what=f"the schema of {path}",
            )


def _described(plane: ControlPlane, at: str) -> set[str]:
    """The kinds of a group version whose schemas are published."""
    # It is empty for a moment after the last definition of a group has gone.
    document = plane.client.get(f"/openapi/v3{at}").body or {}
    schemas = document.get("components", {}).get("schemas", {}).values()
    key = "x-kubernetes-group-version-kind"
    return {kind["kind"] for schema in schemas for kind in schema.get(key, ())}


@contextmanager
def disturbed(
    plane: ControlPlane, played: Scenario, namespace: str
) -> Iterator[list[WebhookListener]]:
    """The webhooks and policies of a scenario are in force."""
    with ExitStack() as undo:
        listeners = []
        for hook in played.hooks:
            listener = undo.enter_context(WebhookListener(plane.authority, hook.patch))
            time.sleep(hook.later)
            undo.enter_context(
                listener.registered(
                    plane, namespace, list(hook.resources), name=hook.name, **hook.settings
                )
            )
            listeners.append(listener)
        for policy in played.policies:
            undo.enter_context(bound(plane, namespace, policy))
        yield listeners


def play(
    plane: ControlPlane,
    played: Scenario,
    namespace: str,
    *,
    fixed: Callable[[], object] = lambda: None,
    left_alone: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Played:
    """In a namespace that exists; after `define`.

    The events are of the level that the control plane logs. `fixed` is called when all webhooks are
    registered, before anybody acts; `left_alone` are the fields that a user leaves to others.
    """
    trail, scene = AuditTrail(plane, namespace), Scene(plane, namespace, left_alone)
    if played.before is not None:
        played.before(scene)
    with disturbed(plane, played, namespace), Genguard("--audit-only", RECORD) as guard:
        # The flag RECORD names a file of the process's own folder.
        with registered(plane, namespace, guard, rules=CUSTOM):
            configurations = list(_configurations(plane))
            fixed()
            played.act(scene)
        guard.stop(at_once=True)
        reviews = guard.recording.read_bytes()
    return Played(reviews, trail.all_events(), configurations)


def make_namespace(plane: ControlPlane, name: str) -> None:
    """With the service account that pods need."""
    plane.client.post("/api/v1/namespaces", {"metadata": {"name": name}})
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    wait_until(lambda: plane.client.get(account).body, what=f"the account of {name}")


def _configurations(plane: ControlPlane) -> Iterator[dict[str, Any]]:
    for kind, plural in _REGISTRATIONS.items():
        found = plane.client.get(f"{_API}/{plural}").body
        for item in found["items"]:
            yield {**item, "kind": kind, "apiVersion": "admissionregistration.k8s.io/v1"}
