"""A serving genguard learns from the cluster who can have done it, and names them in findings."""

import json

from tests.controlplane.client import wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.controlplane.webhook_listener import WebhookListener, no_patch
from tests.e2e.culprits import removes_observed_generation
from tests.e2e.custom import served
from tests.e2e.genguard import Genguard
from tests.e2e.registrations import registered, rule
from tests.scenarios.policies import bound
from tests.scenarios.scene import Policy

_STATUS = ("widgets/status",)
_PINS = {
    "patchType": "JSONPatch",
    "jsonPatch": {
        "expression": '[JSONPatch{op: "add", path: "/status/observedGeneration", value: 1}]'
    },
}


def actors(guard: Genguard, detector: str) -> list[list[str]]:
    """Of the one finding of a detector that is a loop: type, name and confidence of each."""
    _, body = guard.ops("/api/findings")
    found = [one for one in json.loads(body)["findings"] if one["detector"] == detector]
    return [
        [one["type"], one["name"], one["confidence"]]
        for finding in found
        if finding["severity"] != "info"
        for one in finding["actors"]
    ]


def test_a_policy_that_pins_a_field_is_named_before_the_controller(
    cluster: ControlPlane, namespace: NamespaceFactory
) -> None:
    name = namespace(cluster)
    policy = Policy("pins", _STATUS, "request.userInfo.username.startsWith('kube')", _PINS)
    with (
        Genguard("--audit-only", f"--kubeconfig={cluster.kubeconfig}") as guard,
        served(cluster, name, status_subresource=True) as widgets,
        registered(cluster, name, guard, rules=[rule(["widgets", *_STATUS])]),
        bound(cluster, name, policy),
    ):
        found = widgets.create(spec={"size": 1})
        # Policies learn of a kind some time after it is served, and refuse its writes until then.
        wait_until(lambda: widgets.put(found, "status", dry_run=True, status={}), timeout=60.0)
        for size in range(2, 11):
            found = widgets.put(found, spec={"size": size})
            seen = found["metadata"]["generation"]
            for run in (1, 2):
                found = widgets.put(
                    found, "status", status={"observedGeneration": seen, "n": [size, run]}
                )
        expected = [["policy", "pins", "likely"], ["user", "kubernetes-admin", "possible"]]
        wait_until(
            lambda: actors(guard, "observed-generation-stalled") == expected, what="policy named"
        )


def test_a_webhook_whose_condition_is_false_leaves_the_other_certain(
    cluster: ControlPlane, namespace: NamespaceFactory
) -> None:
    name = namespace(cluster)
    only = [{"name": "large", "expression": "object.spec.size > 100"}]
    with (
        Genguard("--audit-only", f"--kubeconfig={cluster.kubeconfig}") as guard,
        served(cluster, name, status_subresource=True) as widgets,
        WebhookListener(cluster.authority, no_patch) as other,
        other.registered(cluster, name, _STATUS, name="aaa-other", matchConditions=only),
        WebhookListener(cluster.authority, removes_observed_generation) as guilty,
        guilty.registered(cluster, name, _STATUS, name="mmm-guilty"),
        registered(cluster, name, guard, rules=[rule(["widgets", *_STATUS])]),
    ):
        found = widgets.create(spec={"size": 1})
        for run in range(6):
            found = widgets.put(found, "status", status={"observedGeneration": 1, "n": run})
        expected = [["webhook", "mmm-guilty/reviews.example.org", "certain"]]
        wait_until(
            lambda: actors(guard, "observed-generation-cleared") == expected, what="webhook named"
        )
