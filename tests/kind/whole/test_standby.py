"""The active pod is taken away under 40 writes a second, and the standby takes over."""

import time
from collections.abc import Callable

import pytest

from tests.controlplane.client import wait_until
from tests.kind.cluster import SYSTEM, Cluster, Figure, Json
from tests.kind.culprit import Culprit
from tests.kind.draws import unrepaired
from tests.kind.guarded import Guarded
from tests.kind.load import Load
from tests.kind.taken_away import Undo, delete, drain, freeze_the_node, kill, stop_the_node

_BEFORE = 5.0
_AFTER = 20.0
_HEALED_SECONDS = 10.0


def _two_nodes(cluster: Cluster) -> bool:
    """Whether both pods run, each on a node of its own; after a drain they share one."""
    pods = cluster.pods()
    if len(pods) == 2 and len({one["spec"]["nodeName"] for one in pods}) == 1:
        active = cluster.answering()["metadata"]["name"]
        (standby,) = (name for one in pods if (name := one["metadata"]["name"]) != active)
        cluster.kubectl("-n", SYSTEM, "delete", "pod", standby)
        return False
    return len(pods) == 2


@pytest.mark.parametrize(
    ("take", "seconds"),
    [(delete, 2.0), (kill, 2.0), (drain, 2.0), (stop_the_node, 8.0), (freeze_the_node, 8.0)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_standby_takes_over(
    cluster: Cluster,
    culprit: Culprit,
    figure: Figure,
    take: Callable[[Cluster, Json], Undo],
    seconds: float,
) -> None:
    cluster.ensure(audit_only=False)
    wait_until(lambda: _two_nodes(cluster), 180, every=1, what="active and standby on two nodes")
    namespace = take.__name__.replace("_", "-")
    with culprit.clearing("deployments/status", namespace), Load(cluster, namespace) as load:
        with Guarded(cluster, namespace) as guarded:
            load.go_on(_BEFORE)
            active = cluster.answering()
            undo = take(cluster, active)
            load.go_on(_AFTER)
        load.stop()
        time.sleep(_HEALED_SECONDS)
        left, tally = unrepaired(cluster, namespace), load.tally
        taken_over = cluster.answering()["metadata"]["name"] != active["metadata"]["name"]
        undo()
    figure(f"{guarded}; {tally}; {len(left)} left unrepaired")
    cluster.kubectl("delete", "namespace", namespace, "--wait=false")
    assert not tally.failures, tally.failures[:3]
    assert not guarded.failures, guarded.failures[:3]
    assert taken_over
    assert guarded.gap <= seconds
    assert left == []
