"""What a running cluster's objects make of /api/objects, of the metrics, and of --flip-status."""

import json
import re
from typing import Any

from tests.controlplane.client import wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.e2e.audit import AuditTrail
from tests.e2e.culprits import deployment
from tests.e2e.custom import served
from tests.e2e.genguard import Genguard
from tests.e2e.registrations import registered, rule

WATCHED = rule(["widgets", "widgets/status"], ["CREATE", "UPDATE"])
LAG = "genguard_observation_lag_seconds"
DURATION = "genguard_reconcile_duration_seconds"
DEPLOYMENTS = {"group": "apps", "kind": "Deployment"}
REPORTED = [{"type": "Ready", "status": "True", "reason": "AllUp"}]


def shown(guard: Genguard, query: str) -> list[dict[str, Any]]:
    status, text = guard.ops(f"/api/objects?{query}")
    assert status == 200, text
    objects: list[dict[str, Any]] = json.loads(text)["objects"]
    return objects


def test_a_scaled_deployment_is_observed_once_and_reconciled_once(
    cluster: ControlPlane, namespace: NamespaceFactory
) -> None:
    name = namespace(cluster)
    flags = (f"--kubeconfig={cluster.kubeconfig}", "--watch=deployments.apps")
    with Genguard(*flags) as guard:
        wait_until(lambda: guard.metric("genguard_watch_current") == 1, what="the watch")

        def settled_at(generation: int) -> dict[str, Any] | None:
            for one in shown(guard, f"kind=Deployment&namespace={name}"):
                if one["settled"] and one["reconciledGeneration"] == generation:
                    return one
            return None

        path = f"/apis/apps/v1/namespaces/{name}/deployments"
        cluster.client.post(path, deployment("web"))
        wait_until(lambda: settled_at(1), what="the creation reconciled")
        before = {
            family: guard.metric(f"{family}_count", **DEPLOYMENTS) for family in (LAG, DURATION)
        }
        cluster.kubectl("scale", "deployment/web", "--replicas=3", f"--namespace={name}")
        one = wait_until(lambda: settled_at(2), what="the scaling reconciled")
        assert (one["generation"], one["observedGeneration"], one["ready"]) == (2, 2, True)
        assert one["health"] == "Green"
        assert 0 < one["observationLagSeconds"] <= one["reconcileDurationSeconds"] < 60
        for family, count in before.items():
            assert count >= 1, "the creation"
            # Other tests have Deployments in this cluster, too.
            assert guard.metric(f"{family}_count", **DEPLOYMENTS) > count
        assert guard.metric("genguard_objects", health="Green", **DEPLOYMENTS) >= 1

        uid = one["uid"]
        cluster.client.delete(f"{path}/web")
        wait_until(lambda: not shown(guard, f"uid={uid}"), what="the deletion seen")


def test_a_new_intent_and_its_flipped_status_are_stored_as_one(
    cluster: ControlPlane, namespace: NamespaceFactory
) -> None:
    name = namespace(cluster)
    trail = AuditTrail(cluster, name)
    with served(cluster, name, status_subresource=False) as widgets:
        flags = (f"--kubeconfig={cluster.kubeconfig}", f"--flip-status={widgets.resource}")
        with Genguard(*flags) as guard, registered(cluster, name, guard, rules=[WATCHED]):
            assert guard.metric("genguard_flip_status_refused") == 0
            found = widgets.create(spec={"size": 1}, status={"conditions": REPORTED})
            assert found["status"]["conditions"] == REPORTED
            found = widgets.put(found, spec={"size": 2})
            ready, settled = found["status"]["conditions"]
            assert (ready["type"], ready["status"]) == ("Ready", "Unknown")
            assert (settled["type"], settled["status"]) == ("Settled", "False")
            assert re.fullmatch(r"20\d\d-.*Z", ready["lastTransitionTime"])
            assert found["metadata"]["generation"] == 2, "one write, one generation"
            assert widgets.get()["status"] == found["status"]

            both = {"conditions": [*REPORTED, {"type": "Settled", "status": "True"}]}
            found = widgets.put(found, status=both)
            assert found["status"] == both, "the controller's own word stands"
    (_, flipped, _) = trail.said("widgets", name="one")
    assert flipped["flip-status"] == "set status.conditions=..."


def test_where_status_is_a_subresource_nothing_is_flipped_and_the_reason_is_told(
    cluster: ControlPlane, namespace: NamespaceFactory
) -> None:
    name = namespace(cluster)
    with served(cluster, name, status_subresource=True) as widgets:
        flags = (f"--kubeconfig={cluster.kubeconfig}", f"--flip-status={widgets.resource}")
        with Genguard(*flags) as guard, registered(cluster, name, guard, rules=[WATCHED]):
            assert guard.metric("genguard_flip_status_refused") == 1
            (told,) = guard.log_lines("status is not flipped")
            assert told["resource"] == widgets.resource
            assert "status subresource" in told["reason"]
            found = widgets.create(spec={"size": 1})
            found = widgets.put(found, "status", status={"conditions": REPORTED})
            found = widgets.put(found, spec={"size": 2})
            assert found["status"] == {"conditions": REPORTED}
