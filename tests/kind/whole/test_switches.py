"""The off switch, and switches between the modes, while writes are made."""

import pytest

from tests.controlplane.client import wait_until
from tests.kind.cluster import Cluster, Figure
from tests.kind.culprit import Culprit
from tests.kind.draws import MANY, restored
from tests.kind.switching import Switch

OFF = ("kubectl", "delete", "-k", "manifests/base/registrations")


@pytest.mark.parametrize("mode", ["audit-only", "enforcing", "audit-only", "enforcing"])
def test_a_switch_of_modes_is_over_when_install_returns(
    cluster: Cluster, figure: Figure, mode: str
) -> None:
    audit_only = mode == "audit-only"
    cluster.ensure(audit_only=not audit_only)
    with Switch(cluster) as switch:
        cluster.install(audit_only=audit_only)
        switch.is_over(mode)
    figure(f"to {mode}: {switch}")
    assert mode in cluster.doctor()["reached"]["message"]


def test_after_the_off_switch_nothing_is_sent_to_genguard_until_it_is_installed_again(
    cluster: Cluster, culprit: Culprit, figure: Figure
) -> None:
    cluster.ensure(audit_only=False)
    cluster.run(*OFF)
    assert cluster.faults()["registered"] == "fail"
    with culprit.clearing("deployments/status", "off"):
        assert restored(cluster, culprit, "off") == 0
    cluster.up(audit_only=False)
    wait_until(lambda: not cluster.faults(), what="all well")
    count = restored(cluster, culprit, "on-again")
    figure(f"0 of {MANY} restored while off, {count} of {MANY} after kind.sh up")
    assert count == MANY
