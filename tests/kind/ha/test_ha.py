"""The same with three replicas that examine as one, two API servers, and a store that is lost."""

import time
from collections.abc import Callable

import pytest

from tests.controlplane.client import wait_until
from tests.kind import faults
from tests.kind.cluster import SYSTEM, Cluster, Figure, Json
from tests.kind.culprit import Culprit
from tests.kind.draws import assert_named, assert_restored
from tests.kind.load import assert_nothing_lost
from tests.kind.switching import Switch
from tests.kind.taken_away import Take, assert_guards_on, delete, drain, kill, stop_the_node

STORE = "app.kubernetes.io/name=genguard-valkey"
_MEASURED_SECONDS = 2.0


def test_kind_sh_up_installs_three_replicas_and_a_store(cluster: Cluster, figure: Figure) -> None:
    begin = time.monotonic()
    done = cluster.up(audit_only=True)
    figure(f"{time.monotonic() - begin:.0f} s, {len(cluster.pods())} pods")
    assert "reached" in done.stdout
    assert len(cluster.pods()) == 3
    assert cluster.faults() == {}


@pytest.mark.parametrize("draw", range(5))
def test_audit_only_the_webhook_is_named_however_pods_are_replaced(
    cluster: Cluster, culprit: Culprit, figure: Figure, draw: int
) -> None:
    cluster.ensure(audit_only=True)
    done = cluster.replace_pods(draw)
    assert_named(cluster, culprit, figure, f"named-{draw}", f"after {done}")


def test_a_switch_to_enforcing_is_over_when_install_returns(
    cluster: Cluster, figure: Figure
) -> None:
    cluster.ensure(audit_only=True)
    with Switch(cluster) as switch:
        cluster.install(audit_only=False)
        switch.is_over("enforcing")
    figure(str(switch))


@pytest.mark.parametrize("draw", range(5))
def test_enforcing_the_value_is_restored_however_pods_are_replaced(
    cluster: Cluster, culprit: Culprit, figure: Figure, draw: int
) -> None:
    cluster.ensure(audit_only=False)
    done = cluster.replace_pods(draw)
    assert_restored(cluster, culprit, figure, f"kept-{draw}", f"after {done}")


def kill_the_store(cluster: Cluster) -> None:
    """End the store's pod at once, in the middle of the load."""
    kill = ("delete", "pod", "-l", STORE, "--force", "--grace-period=0")
    cluster.kubectl("-n", SYSTEM, *kill)
    ready = ("wait", "--for=condition=Ready", "pod", "-l", STORE, "--timeout=120s")
    wait_until(
        lambda: cluster.run("kubectl", "-n", SYSTEM, *ready, check=False).returncode == 0, 180
    )


@pytest.mark.parametrize("fault", [kill_the_store, *faults.ALL], ids=lambda fault: fault.__name__)
def test_under_load_no_write_fails_and_nothing_is_left_unrepaired(
    cluster: Cluster, culprit: Culprit, figure: Figure, fault: Callable[[Cluster], None]
) -> None:
    cluster.ensure(audit_only=False)
    assert_nothing_lost(cluster, culprit, figure, fault)


def _reviews(cluster: Cluster) -> dict[str, float]:
    """How many reviews each pod has answered."""
    found = {}
    for pod in cluster.pods():
        name = pod["metadata"]["name"]
        path = f"/api/v1/namespaces/{SYSTEM}/pods/{name}:8080/proxy/metrics"
        lines = cluster.kubectl("get", "--raw", path).splitlines()
        counts = [one.split()[-1] for one in lines if one.startswith("genguard_reviews_total")]
        found[name] = sum(map(float, counts))
    return found


def _busiest(cluster: Cluster) -> Json:
    """The pod that answers most reviews now, on another node than the store.

    One beside the store is deleted: the store has a test of its own, and clients go elsewhere.
    """
    (store,) = cluster.get("-n", SYSTEM, "pod", "-l", STORE)["items"]
    before = _reviews(cluster)
    time.sleep(_MEASURED_SECONDS)
    now = _reviews(cluster)
    name = max(now, key=lambda one: now[one] - before.get(one, now[one]))
    busiest = cluster.get("-n", SYSTEM, "pod", name)
    if busiest["spec"]["nodeName"] != store["spec"]["nodeName"]:
        return busiest
    cluster.kubectl("-n", SYSTEM, "delete", "pod", name)
    cluster.rolled_out()
    return _busiest(cluster)


@pytest.mark.parametrize(
    ("take", "seconds"),
    [(delete, 0.0), (drain, 0.0), (kill, 2.0), (stop_the_node, 10.0)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_other_replicas_guard_on(
    cluster: Cluster, culprit: Culprit, figure: Figure, take: Take, seconds: float
) -> None:
    cluster.ensure(audit_only=False)
    assert_guards_on(
        cluster, culprit, figure, take, choose=lambda: _busiest(cluster), seconds=seconds
    )


def test_after_the_store_was_lost_20_of_20_are_restored(
    cluster: Cluster, culprit: Culprit, figure: Figure
) -> None:
    kill_the_store(cluster)
    assert_restored(cluster, culprit, figure, "after-the-loss", "after the store was killed")


def test_uninstall_leaves_nothing(cluster: Cluster, figure: Figure) -> None:
    cluster.genguard("uninstall", "--yes")
    left = wait_until(lambda: cluster.leftovers() or ["nothing"], what="what is left")
    figure(", ".join(left))
    assert left == ["nothing"]
