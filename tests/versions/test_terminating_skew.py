"""KEP-3973's own test: 1.34, 1.35, 1.34 and 1.35 again, with Deployment, pods and statuses carried.

API server and controller manager are 1.36 that emulates the release. The API server is upgraded
first and downgraded last. Pods terminate from the beginning to the end.
"""

from dataclasses import replace

import pytest

from tests.controlplane.client import wait_until
from tests.controlplane.options import FULL_CLUSTER
from tests.controlplane.plane import ControlPlane
from tests.e2e.genguard import RECORD, Genguard
from tests.e2e.recordings import examined, wrong_predictions
from tests.e2e.registrations import registered
from tests.e2e.statuses import Shop
from tests.e2e.test_terminating import Numbers, Told, Web, watching

pytestmark = pytest.mark.timeout(600)

NAMESPACE = "default"
BEFORE, AFTER = (
    replace(FULL_CLUSTER, kwok_nodes=1, emulated_version=version) for version in ("1.34", "1.35")
)
API, CONTROLLERS = "kube-apiserver", "kube-controller-manager"
PODS = 2
"""Of the Deployment. A rollout leaves as many that terminate."""


def test_from_1_34_to_1_35_and_back_and_to_1_35_again_every_count_and_verdict_is_right() -> None:
    with (
        ControlPlane(BEFORE) as plane,
        watching(plane, "--object-metrics=1000", RECORD) as guard,
        registered(plane, NAMESPACE, guard),
    ):
        web = Web(plane, NAMESPACE)
        web.create(PODS)
        web.roll("image:2")
        web.rolled_out()
        counts_what_nobody_reports(web, guard, PODS)

        plane.replace(API, AFTER)
        counts_what_nobody_reports(web, guard, PODS)
        plane.replace(CONTROLLERS, AFTER)
        web.agree(guard, PODS)
        web.roll("image:3")
        web.rolled_out()
        web.agree(guard, 2 * PODS)
        waits_for(web, 2 * PODS)

        plane.replace(CONTROLLERS, BEFORE)
        counts_what_nobody_reports(web, guard, 2 * PODS)
        plane.replace(API, BEFORE)
        counts_what_nobody_reports(web, guard, 2 * PODS)

        plane.replace(API, AFTER)
        plane.replace(CONTROLLERS, AFTER)
        web.roll("image:4")
        web.rolled_out()
        web.agree(guard, 3 * PODS)
        waits_for(web, 3 * PODS)
        for pod in web.terminating():
            web.force(pod)
        web.agree(guard, 0)
        assert Shop(plane, NAMESPACE).until("deploy/web", settled=True)["reasons"] == []

        assert guard.findings() == []
        guard.stop(at_once=True)
        for kind in ("Deployment", "ReplicaSet", "Pod"):
            reviews = examined(guard.recording, kind)
            assert {one.phase for one in reviews} == {"intent", "mutate", "outcome"}
            assert list(wrong_predictions(reviews)) == []


def counts_what_nobody_reports(web: Web, guard: Genguard, terminating: int) -> None:
    """No status has the field, and genguard's count is that of the pods."""

    def is_silent() -> Numbers | None:
        stored, told = web.stored(), web.told(guard)
        silent = {*stored.values()} == {*told.reported.values()} == {None}
        return told.counted if silent else None

    def counts() -> bool:
        counted = is_silent()
        return counted is not None and counted["deployments/web"] == terminating

    wait_until(counts, 60, what=f"{terminating} counted: {web.stored()}")
    told: Told = web.told(guard)
    sets = [n or 0 for name, n in told.counted.items() if name.startswith("replicasets/")]
    assert sum(sets) == terminating == len(web.terminating())
    waits_for(web, terminating)


def waits_for(web: Web, terminating: int) -> None:
    """It is ready, and not settled while pods terminate, and it is said how many pods there are."""
    found = Shop(web.plane, NAMESPACE).until("deploy/web", ready=True)
    assert (found["settled"], found["terminatingReplicas"]) == (False, terminating)
    pods = PODS + terminating
    beyond = f"{pods} pods in all, {terminating - 1} more than spec.replicas + maxSurge"
    assert any(one.endswith(beyond) for one in found["reasons"]), found["reasons"]
