"""20 Deployments whose status a webhook clears, however genguard's pods are replaced."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import pytest

from tests.kind.cluster import Cluster, Figure
from tests.kind.culprit import Culprit
from tests.kind.draws import assert_named, assert_restored
from tests.kind.faults import restart_by_rollout

DRAWS = pytest.mark.parametrize("draw", range(5))
MEANWHILE = "during rollout restart"


@DRAWS
def test_audit_only_the_webhook_is_named_however_pods_are_replaced(
    cluster: Cluster, culprit: Culprit, figure: Figure, draw: int
) -> None:
    cluster.ensure(audit_only=True)
    done = cluster.replace_pods(draw)
    assert_named(cluster, culprit, figure, f"named-{draw}", f"after {done}")


def test_audit_only_the_webhook_is_named_while_pods_are_replaced(
    cluster: Cluster, culprit: Culprit, figure: Figure
) -> None:
    cluster.ensure(audit_only=True)
    with restarting(cluster):
        assert_named(cluster, culprit, figure, "named-meanwhile", MEANWHILE)


@DRAWS
def test_enforcing_the_value_is_restored_however_pods_are_replaced(
    cluster: Cluster, culprit: Culprit, figure: Figure, draw: int
) -> None:
    cluster.ensure(audit_only=False)
    done = cluster.replace_pods(draw)
    assert_restored(cluster, culprit, figure, f"kept-{draw}", f"after {done}")


def test_enforcing_the_value_is_restored_while_pods_are_replaced(
    cluster: Cluster, culprit: Culprit, figure: Figure
) -> None:
    cluster.ensure(audit_only=False)
    with restarting(cluster):
        assert_restored(cluster, culprit, figure, "kept-meanwhile", MEANWHILE)


@contextmanager
def restarting(cluster: Cluster) -> Iterator[None]:
    """genguard's pods are replaced by a rollout while the context is entered."""
    restart = Thread(target=restart_by_rollout, args=(cluster,))
    restart.start()
    try:
        yield
    finally:
        restart.join()
