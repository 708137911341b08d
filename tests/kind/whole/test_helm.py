"""The chart: one `helm` command installs and registers genguard, and one removes it."""

import time
from collections.abc import Iterator

import pytest

from tests.controlplane.client import wait_until
from tests.kind.cluster import SYSTEM, Cluster, Figure
from tests.kind.culprit import Culprit
from tests.kind.draws import assert_restored
from tools.binaries import binary
from tools.chart import CHART

RELEASE = ("genguard", "--namespace", SYSTEM)


@pytest.fixture(scope="module")
def image(cluster: Cluster) -> Iterator[str]:
    """An image that the nodes have; genguard is not installed."""
    cluster.ensure(audit_only=False)
    image = str(cluster.container()["image"])
    cluster.genguard("uninstall", "--yes")
    wait_until(lambda: not cluster.leftovers(), what="nothing of genguard left")
    yield image
    cluster.kubectl("delete", "namespace", SYSTEM, "--ignore-not-found")


def test_one_command_installs_registers_and_repairs(
    cluster: Cluster, culprit: Culprit, figure: Figure, image: str
) -> None:
    repository, _, tag = image.rpartition(":")
    chosen = (f"--set=image.repository={repository}", f"--set=image.tag={tag}")
    begin = time.monotonic()
    cluster.run(
        *(str(binary("helm")), "upgrade", "--install", *RELEASE, "--create-namespace"),
        *(str(CHART), *chosen),
    )
    figure(f"helm: {time.monotonic() - begin:.0f} s")
    assert cluster.mode() == "enforcing"
    wait_until(lambda: _is_well(cluster), what="doctor finds nothing")
    assert_restored(cluster, culprit, figure, "by-helm", "after helm upgrade --install")


@pytest.mark.usefixtures("image")
def test_one_command_removes_all_but_what_the_pods_made(cluster: Cluster, figure: Figure) -> None:
    cluster.run(str(binary("helm")), "uninstall", *RELEASE, "--wait")
    documented = {f"namespace/{SYSTEM}", "configmap/genguard-findings"}
    documented.add("lease.coordination.k8s.io/genguard")
    left = wait_until(lambda: _only(cluster.leftovers(), documented), what="the rest gone")
    figure(", ".join(sorted(left)))


def _is_well(cluster: Cluster) -> bool:
    assert not [one for one in cluster.doctor().values() if one["level"] != "ok"]
    return True


def _only(found: list[str], documented: set[str]) -> list[str]:
    assert set(found) <= documented, found
    return found or ["nothing"]
