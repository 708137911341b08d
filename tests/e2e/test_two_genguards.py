"""Two genguards in one cluster: one repairs, and neither takes the other for a culprit."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.controlplane.fixtures import WORKER, NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.controlplane.webhook_listener import WebhookListener
from tests.e2e.culprits import removes_observed_generation
from tests.e2e.custom import served
from tests.e2e.genguard import Genguard
from tests.e2e.registrations import registered, rule

_STATUS = ("widgets/status",)
_WRITES = 8


def repaired(guard: Genguard) -> float:
    return guard.metric("genguard_mends_total", mode="did")


def blamed(found: list[dict[str, Any]]) -> set[str]:
    """The webhooks that findings name."""
    actors: list[Mapping[str, Any]] = [one for finding in found for one in finding["actors"]]
    return {one["name"].partition("/")[0] for one in actors if one["type"] == "webhook"}


@pytest.mark.parametrize("culprit", ["mmm-before-both", "zzzzzz-genguard-mutate-a"])
def test_each_write_is_repaired_once_and_no_genguard_is_blamed(
    cluster: ControlPlane, namespace: NamespaceFactory, culprit: str
) -> None:
    name = namespace(cluster)
    flag = f"--kubeconfig={cluster.kubeconfig}"
    rules = [rule(["widgets", *_STATUS])]
    if culprit.endswith("-a"):  # between the two
        culprit = f"zzzzzz-genguard-mutate{WORKER}-a"
    with (
        served(cluster, name, status_subresource=True) as widgets,
        WebhookListener(cluster.authority, removes_observed_generation) as guilty,
        guilty.registered(cluster, name, _STATUS, name=culprit),
        Genguard(flag) as first,
        Genguard(flag) as second,
        registered(cluster, name, first, rules=rules),
        registered(cluster, name, second, rules=rules, suffix=f"{WORKER}-b"),
    ):
        found = widgets.create(spec={"size": 1})
        for run in range(_WRITES):
            found = widgets.put(found, "status", status={"observedGeneration": 1, "n": run})
            assert found["status"] == {"observedGeneration": 1, "n": run}
        assert len(guilty.reviews) >= _WRITES
        assert repaired(first) + repaired(second) == len(guilty.reviews)
        for guard in (first, second):
            assert blamed(guard.findings()) <= {culprit}
        assert blamed(first.findings() + second.findings()) == {culprit}
        detectors = {one["detector"] for one in first.findings() + second.findings()}
        assert detectors <= {"observed-generation-cleared"}
