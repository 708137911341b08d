"""Terminating pods counted from watches, beside what the real controllers report or do not."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from tests.controlplane.client import STRATEGIC_MERGE_PATCH, Client, wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.options import FULL_CLUSTER
from tests.controlplane.plane import ControlPlane
from tests.e2e.culprits import deployment
from tests.e2e.genguard import RECORD, Genguard
from tests.e2e.player import Player
from tests.e2e.recordings import examined, wrong_predictions
from tests.e2e.registrations import registered
from tests.e2e.statuses import Shop
from tests.waiting import PATIENCE
from webhook.cli import main

GATE = "DeploymentReplicaSetTerminatingReplicas"
OBJECTS = "genguard_terminating_replicas_objects"
_KINDS = {
    "deployments": (
        "deployment",
        "kube_deployment_status_replicas_terminating",
        "genguard_deployment_terminating_pods",
    ),
    "replicasets": (
        "replicaset",
        "kube_replicaset_status_terminating_replicas",
        "genguard_replicaset_terminating_pods",
    ),
}

Numbers = dict[str, int | None]
"""By `deployments/web`; None where there is none."""


class Told(NamedTuple):
    """What /metrics says of the objects of one namespace."""

    reported: Numbers
    counted: Numbers


def watching(plane: ControlPlane, *flags: str) -> Genguard:
    names = "pods,replicasets.apps,deployments.apps"
    return Genguard(f"--kubeconfig={plane.kubeconfig}", f"--watch={names}", *flags)


class Web:
    """The Deployment `web` of one namespace; its pods end only when they are forced to."""

    def __init__(self, plane: ControlPlane, namespace: str, **annotations: str) -> None:
        self.plane, self.namespace = plane, namespace
        self.path = f"/apis/apps/v1/namespaces/{namespace}"
        self.pods = f"/api/v1/namespaces/{namespace}/pods"
        marks = {"terminates-after": "1h", "ready-after": "0s"} | annotations
        self.marks = {f"genguard.io/test-{key}": value for key, value in marks.items()}

    def create(self, replicas: int, strategy: str = "RollingUpdate", **details: Any) -> None:
        body = deployment("web", replicas)
        body["spec"]["strategy"] = {"type": strategy, **details}
        body["spec"]["template"]["metadata"]["annotations"] = self.marks
        self.plane.client.post(f"{self.path}/deployments", body)
        self.rolled_out()

    def rolled_out(self) -> None:
        here = f"--namespace={self.namespace}"
        self.plane.kubectl("rollout", "status", "deployment/web", here, "--timeout=60s")

    def change(self, **spec: Any) -> None:
        body = {"spec": spec}
        path = f"{self.path}/deployments/web"
        self.plane.client.patch(path, body, content_type=STRATEGIC_MERGE_PATCH)

    def roll(self, image: str) -> None:
        spec = {"containers": [{"name": "c", "image": image}]}
        self.change(template={"metadata": {"annotations": self.marks}, "spec": spec})

    def scale(self, replicas: int) -> None:
        """As kubectl scale and an autoscaler do."""
        body = {"spec": {"replicas": replicas}}
        self.plane.client.patch(f"{self.path}/deployments/web/scale", body)

    def sizes(self) -> list[int]:
        """What the Deployment wants of each of its ReplicaSets."""
        found = self.plane.client.get(f"{self.path}/replicasets").body["items"]
        return sorted(one["spec"]["replicas"] for one in found)

    def beyond(self) -> str | None:
        """What `genguard status` says of the Deployment's own terminating pods."""
        reasons = Shop(self.plane, self.namespace).status("deploy/web")["reasons"]
        return next((one for one in reasons if one.startswith("status.terminating")), None)

    def names(self) -> list[str]:
        return [one["metadata"]["name"] for one in self.plane.client.get(self.pods).body["items"]]

    def terminating(self) -> list[str]:
        """The names of the pods that have been deleted and are still there."""
        found = self.plane.client.get(self.pods).body["items"]
        return sorted(p["metadata"]["name"] for p in found if "deletionTimestamp" in p["metadata"])

    def force(self, pod: str) -> None:
        """Ends a pod at once, as a node that is gone for good."""
        self.plane.client.delete(f"{self.pods}/{pod}", {"gracePeriodSeconds": 0})

    def stored(self) -> Numbers:
        """What the controllers have written."""
        return {
            f"{kind}/{one['metadata']['name']}": one["status"].get("terminatingReplicas")
            for kind in _KINDS
            for one in self.plane.client.get(f"{self.path}/{kind}").body["items"]
        }

    def versions(self) -> Counter[str]:
        """Changes whenever anything does."""
        paths = [self.pods, *(f"{self.path}/{kind}" for kind in _KINDS)]
        found = [one for path in paths for one in self.plane.client.get(path).body["items"]]
        return Counter(one["metadata"]["resourceVersion"] for one in found)

    def told(self, guard: Genguard) -> Told:
        samples = [s for s in guard.metrics() if s.labels.get("namespace") == self.namespace]
        reported: Numbers = {}
        counted: Numbers = {}
        for kind, (label, name, own) in _KINDS.items():
            for sample in samples:
                if sample.name == own:
                    counted[f"{kind}/{sample.labels[label]}"] = int(sample.value)
                elif sample.name == name:
                    reported[f"{kind}/{sample.labels[label]}"] = int(sample.value)
        return Told({key: reported.get(key) for key in counted}, counted)

    def agree(self, guard: Genguard, terminating: int) -> None:
        """Waits for so many, and then they are the same however they are counted."""

        def settled() -> bool:
            stored, told = self.stored(), self.told(guard)
            is_so = stored["deployments/web"] == terminating and told == Told(stored, stored)
            assert is_so, f"{stored} {told}"
            return True

        wait_until(settled, what=f"{terminating} terminating")


class Replicas(Player):
    """Looks at status.replicas of the Deployment `web` again and again."""

    def __init__(self, web: Web) -> None:
        super().__init__(web.plane)
        self._path = f"{web.path}/deployments/web"
        self.seen: list[int] = []

    def look(self, client: Client) -> None:
        self.seen.append(client.get(self._path).body["status"].get("replicas", 0))


def beyond(pods: int, most: int) -> str:
    return f"{pods} pods in all, {pods - most} more than spec.replicas + maxSurge"


def telling(terminating: int, note: str) -> str:
    return f"status.terminatingReplicas {terminating}, want 0: {note}"


@contextmanager
def recorded(plane: ControlPlane, namespace: str) -> Iterator[Genguard]:
    """One that counts, examines and keeps the writes of a namespace; ended when it is left."""
    with watching(plane, "--object-metrics=1000", RECORD) as guard:
        with registered(plane, namespace, guard):
            yield guard
            found = guard.findings()
            assert [one for one in found if one["object"]["namespace"] == namespace] == []
        guard.stop(at_once=True)
        for kind in ("Deployment", "ReplicaSet"):
            reviews = examined(guard.recording, kind)
            assert {one.phase for one in reviews} == {"intent", "mutate", "outcome"}
            assert list(wrong_predictions(reviews)) == []


def test_both_counts_agree_while_pods_come_to_their_end_one_way_or_another(
    cluster: ControlPlane, namespace: NamespaceFactory
) -> None:
    web = Web(cluster, namespace(cluster))
    with watching(cluster, "--object-metrics=1000") as guard:
        web.create(3)
        web.agree(guard, 0)
        held = f"{web.pods}/{web.names()[0]}"
        cluster.client.patch(held, {"metadata": {"finalizers": ["genguard.io/test"]}})
        web.roll("image:2")
        web.rolled_out()
        web.agree(guard, 3)
        web.change(replicas=1)
        web.agree(guard, 5)
        # In a phase that nothing follows it has ended, however long it stays.
        cluster.client.patch(f"{held}/status", {"status": {"phase": "Failed"}})
        web.agree(guard, 4)
        cluster.client.patch(held, {"metadata": {"finalizers": None}})
        one, two, *_ = wait_until(lambda: len(web.terminating()) == 4 and web.terminating())
        web.force(one)
        web.agree(guard, 3)
        # Relabelled it is none of the selector's; nobody takes its ownerReference away.
        cluster.client.patch(f"{web.pods}/{two}", {"metadata": {"labels": {"app": "other"}}})
        web.agree(guard, 2)
        assert len(web.terminating()) == 3
        for pod in web.terminating():
            web.force(pod)
        web.agree(guard, 0)


def test_the_oldest_pod_has_an_age_and_status_names_the_node_that_holds_it(
    cluster: ControlPlane, namespace: NamespaceFactory
) -> None:
    web = Web(cluster, namespace(cluster))
    with watching(cluster, "--object-metrics=1000") as guard:
        web.create(1)
        (pod,) = web.names()
        node = cluster.client.get(f"{web.pods}/{pod}").body["spec"]["nodeName"]
        cluster.client.patch(f"{web.pods}/{pod}", {"metadata": {"finalizers": ["a.org/held"]}})
        asked = time.time()
        # The grace period of one second is over soon, and the node stops nothing for an hour.
        cluster.client.delete(f"{web.pods}/{pod}", {"gracePeriodSeconds": 1})

        def ages() -> dict[str, float]:
            names = ("deployment_terminating_pod_age", "replicaset_terminating_pod_age")
            here = {"namespace": web.namespace}
            found = {name: guard.metric(f"genguard_{name}_seconds", **here) for name in names}
            late = "terminating_pod_overdue"
            return found | {late: guard.metric(f"genguard_{late}_seconds", controller="ReplicaSet")}

        wait_until(lambda: min(ages().values()) >= 2, what=f"ages {ages()}")
        found = ages()
        passed = time.time() - asked
        # A deletionTimestamp has whole seconds.
        assert found["deployment_terminating_pod_age"] <= passed + 1
        told = CliRunner().invoke(
            main,
            ["status", f"pod/{pod}", "-n", web.namespace, f"--kubeconfig={cluster.kubeconfig}"],
        )
        assert f"{node} to confirm that its containers stopped, then for finalizers a.org/held" in (
            " ".join(told.stdout.split())
        )
        web.force(pod)
        cluster.client.patch(f"{web.pods}/{pod}", {"metadata": {"finalizers": None}})
        wait_until(lambda: ages()["deployment_terminating_pod_age"] == 0)


def test_recreate_waits_for_the_old_pods_and_both_counts_say_for_how_many(
    cluster: ControlPlane, namespace: NamespaceFactory
) -> None:
    web = Web(cluster, namespace(cluster))
    with watching(cluster, "--object-metrics=1000") as guard:
        web.create(2, "Recreate")
        web.roll("image:2")
        web.agree(guard, 2)
        one, two = web.terminating()
        web.force(one)
        web.agree(guard, 1)
        web.force(two)
        web.rolled_out()
        web.agree(guard, 0)


def test_at_every_quiet_moment_of_a_slow_rollout_the_counts_are_the_controllers_own(
    cluster: ControlPlane, namespace: NamespaceFactory
) -> None:
    web = Web(cluster, namespace(cluster), **{"ready-after": "1s", "terminates-after": "4s"})
    seen: list[int | None] = []
    with watching(cluster, "--object-metrics=1000") as guard:
        web.create(4)
        web.roll("image:2")
        end = time.monotonic() + 2 * PATIENCE
        while seen[-1:] != [0] or max(seen, default=0) == 0:
            assert time.monotonic() < end, f"terminating at quiet moments: {seen}"
            before = web.versions()
            time.sleep(0.3)
            stored = web.stored()

            def same_or_moved(stored: Numbers = stored, before: Counter[str] = before) -> bool:
                return web.told(guard) == Told(stored, stored) or web.versions() != before

            wait_until(same_or_moved, what=f"{stored} told")
            if web.versions() == before:
                seen.append(stored["deployments/web"])
    assert len({*seen}) > 2, seen


def test_pods_beyond_spec_replicas_and_max_surge_are_told(
    cluster: ControlPlane, namespace: NamespaceFactory
) -> None:
    web = Web(cluster, namespace(cluster))
    most = 4 + 1
    with recorded(cluster, web.namespace) as guard, Replicas(web) as replicas:
        web.create(4, rollingUpdate={"maxSurge": 1, "maxUnavailable": 0})
        for image in ("image:2", "image:3"):
            web.roll(image)
            web.rolled_out()
        web.agree(guard, 8)
        assert web.beyond() == telling(8, beyond(12, most))
        # A pod that is evicted is replaced at once.
        evicted = next(one for one in web.names() if one not in web.terminating())
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": evicted}}
        cluster.client.post(f"{web.pods}/{evicted}/eviction", body)
        web.rolled_out()
        web.agree(guard, 9)
        assert web.beyond() == telling(9, beyond(13, most))
        for pod in web.terminating():
            web.force(pod)
        web.agree(guard, 0)
        assert web.beyond() is None
    # What the Deployment itself reports never shows them.
    assert max(replicas.seen) <= most


def test_scaling_in_the_middle_of_a_rollout_is_proportional_whatever_terminates(
    cluster: ControlPlane, namespace: NamespaceFactory
) -> None:
    web = Web(cluster, namespace(cluster))
    with recorded(cluster, web.namespace) as guard:
        web.create(10, rollingUpdate={"maxSurge": 3, "maxUnavailable": 2})
        # The new pods do not become ready, so the rollout stops in the middle.
        web.marks |= {"genguard.io/test-ready-after": "1h"}
        web.roll("image:2")
        wait_until(lambda: web.sizes() == [5, 8], what="the middle of the rollout")
        web.agree(guard, 2)
        web.scale(15)
        wait_until(lambda: web.sizes() == [7, 11], what="five more, in proportion")
        web.agree(guard, 2)
        wait_until(lambda: web.beyond() == telling(2, beyond(20, 18)), what="20 pods")
        web.scale(5)
        # In proportion 5 of 11 old pods and 3 of 7 new ones stay. The rollout goes on: three old
        # pods are as many as must be available, so five new ones are wanted again.
        web.agree(guard, 2 + (11 - 3) + (7 - 3))
        wait_until(lambda: web.beyond() == telling(14, beyond(22, 8)), what="22 pods")


SKEWED = [
    pytest.param({GATE: False}, (), id="off everywhere"),
    pytest.param(
        {},
        (f"--feature-gates={GATE}=false",),
        id="off in the controller manager",
        marks=pytest.mark.nightly,
    ),
    pytest.param(
        {GATE: False},
        (f"--feature-gates={GATE}=true",),
        id="off in the API server",
        marks=pytest.mark.nightly,
    ),
]


@pytest.mark.parametrize(("gates", "of_controllers"), SKEWED)
def test_with_the_gate_off_on_either_side_the_pods_tell_the_truth_and_nothing_is_made_up(
    gates: dict[str, bool], of_controllers: tuple[str, ...]
) -> None:
    options = replace(
        FULL_CLUSTER, kwok_nodes=1, feature_gates=gates, controller_manager_flags=of_controllers
    )
    with ControlPlane(options) as plane:
        web = Web(plane, "default")
        with watching(plane, "--object-metrics=1000") as guard:
            web.create(3)
            web.roll("image:2")
            web.rolled_out()
            for terminating in (3, 2):
                wait_until(lambda n=terminating: _total(web.told(guard)) == n)
                told = web.told(guard)
                assert {*told.reported.values()} == {*web.stored().values()} == {None}
                assert len(web.terminating()) == told.counted["deployments/web"] == terminating
                assert sum(_sets(told.counted)) == terminating
                web.force(web.terminating()[0])
            assert guard.metric(OBJECTS, status="absent") == len(told.counted) == 3
            assert guard.metric(OBJECTS, status="agrees") == 0
            assert not [s for s in guard.metrics() if s.name.startswith("kube_")]


def _total(told: Told) -> int | None:
    return told.counted.get("deployments/web")


def _sets(counted: Numbers) -> Iterator[int]:
    return (n or 0 for name, n in counted.items() if name.startswith("replicasets/"))


def test_without_opting_in_no_name_is_a_label_and_the_sums_are_there(
    cluster: ControlPlane, namespace: NamespaceFactory
) -> None:
    web = Web(cluster, namespace(cluster))
    with watching(cluster) as guard:
        web.create(2)
        web.roll("image:2")
        web.rolled_out()

        def terminating() -> float:
            return guard.metric("genguard_terminating_pods", controller="ReplicaSet")

        wait_until(lambda: terminating() >= 2)
        wait_until(lambda: guard.metric("genguard_watch_current") == 3)
        wait_until(lambda: not guard.metric(OBJECTS, status="differs"))
        assert guard.metric(OBJECTS, kind="Deployment", status="agrees") >= 1
        told = guard.metrics()
        assert not [s for s in told if "namespace" in s.labels or s.name.startswith("kube_")]
