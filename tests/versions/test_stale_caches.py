"""The runbook of stalled generations asks for the counters that controllers of Kubernetes have."""

import re

import pytest

from tests.controlplane.build import MODULE, PROGRAMS, pinned
from tests.monitoring.rules import RUNBOOKS
from tools.versions.published import find_release

NAME = "stale_sync_skips_total"
PAGE = (RUNBOOKS / "observed-generation-stalled.md").read_text()
LATER = {"horizontal_pod_autoscaler_controller"}
"""Counted since 1.37, as the page says."""


def counted(minor: str) -> set[str]:
    """The subsystems whose counters of skipped work the source of a release registers."""
    folder = MODULE if minor == "1.36" else PROGRAMS[f"kube-apiserver-{minor}"]
    found = set()
    for path in find_release(pinned("k8s.io/kubernetes", folder)).controllers.rglob("*.go"):
        text = path.read_text()
        for constant in re.findall(rf'Subsystem: +(\w+),\s+Name: +"{NAME}"', text):
            (name,) = re.findall(rf'\b{constant} += "(\w+)"', text)
            found.add(name)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("minor", "missing"), [("1.36", LATER), ("1.37", set())])
def test_the_query_of_the_runbook_is_for_the_counters_of_this_release(
    minor: str, missing: set[str]
) -> None:
    ((asked,),) = [re.findall(rf'__name__=~"(\S+)_{NAME}"', PAGE)]
    found = counted(minor)
    assert len(found) >= 4
    assert all(re.fullmatch(asked, name) for name in found)
    names = re.findall(r"[a-z_]+(?=[|)])", asked)
    assert {f"{name}_controller" for name in names} == found | missing
