"""20 Deployments whose status a webhook clears, however genguard's pods are replaced."""

import threading

import pytest

from tests.kind.cluster import Cluster
from tests.kind.culprit import Culprit
from tests.kind.draws import MANY, found, restored
from tests.kind.faults import restart_by_rollout
from tests.kind.load import Figure

DRAWS = pytest.mark.parametrize("draw", range(5))


@DRAWS
def test_audit_only_the_webhook_is_named_however_pods_are_replaced(
    cluster: Cluster, culprit: Culprit, figure: Figure, draw: int
) -> None:
    cluster.ensure(audit_only=True)
    done = cluster.replace_pods(draw)
    count = found(cluster, culprit, f"named-{draw}")
    figure(f"{count} of {MANY}, after {done}")
    assert count == MANY


def test_audit_only_the_webhook_is_named_while_pods_are_replaced(
    cluster: Cluster, culprit: Culprit, figure: Figure
) -> None:
    cluster.ensure(audit_only=True)
    restart = threading.Thread(target=restart_by_rollout, args=(cluster,))
    restart.start()
    try:
        count = found(cluster, culprit, "named-meanwhile")
    finally:
        restart.join()
    figure(f"{count} of {MANY}, during rollout restart")
    assert count == MANY


@DRAWS
def test_enforcing_the_value_is_restored_however_pods_are_replaced(
    cluster: Cluster, culprit: Culprit, figure: Figure, draw: int
) -> None:
    cluster.ensure(audit_only=False)
    done = cluster.replace_pods(draw)
    count = restored(cluster, culprit, f"kept-{draw}")
    figure(f"{count} of {MANY}, after {done}")
    assert count == MANY


def test_enforcing_the_value_is_restored_while_pods_are_replaced(
    cluster: Cluster, culprit: Culprit, figure: Figure
) -> None:
    cluster.ensure(audit_only=False)
    restart = threading.Thread(target=restart_by_rollout, args=(cluster,))
    restart.start()
    try:
        count = restored(cluster, culprit, "kept-meanwhile")
    finally:
        restart.join()
    figure(f"{count} of {MANY}, during rollout restart")
    assert count == MANY
