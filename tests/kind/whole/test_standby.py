"""The active pod is taken away under 40 writes a second, and the standby takes over."""

import pytest

from tests.controlplane.client import wait_until
from tests.kind.cluster import SYSTEM, Cluster, Figure
from tests.kind.culprit import Culprit
from tests.kind.taken_away import (
    Take,
    assert_guards_on,
    delete,
    drain,
    freeze_the_node,
    kill,
    stop_the_node,
)


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
    take: Take,
    seconds: float,
) -> None:
    cluster.ensure(audit_only=False)
    wait_until(lambda: _two_nodes(cluster), 180, every=1, what="active and standby on two nodes")
    taken, active = assert_guards_on(
        cluster, culprit, figure, take, choose=cluster.answering, seconds=seconds
    )
    assert active != taken
