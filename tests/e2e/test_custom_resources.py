"""Custom resources, whose rules depend on a definition that appears while genguard runs."""

from collections.abc import Iterator

import pytest

from tests.controlplane.client import wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.e2e.audit import AuditTrail
from tests.e2e.custom import Custom, served
from tests.e2e.genguard import Genguard
from tests.e2e.registrations import registered, rule

WATCHED = rule(["widgets", "widgets/status"], ["CREATE", "UPDATE"])
PRESERVE = "preserve-observed-generation"
READY = {"type": "Ready", "status": "True"}


@pytest.fixture(scope="module")
def connected(cluster: ControlPlane) -> Iterator[Genguard]:
    with Genguard(f"--kubeconfig={cluster.kubeconfig}") as running:
        assert running.log_lines("cluster connected")[0]["version"].startswith(("1.36", "v1.36"))
        assert running.metric("genguard_cluster_known") == 1
        yield running


def learned(guard: Genguard, custom: Custom) -> None:
    """Waits until genguard knows a definition: then it counts its reviews by name."""

    def counted_by_name() -> bool:
        custom.plane.client.post(custom.path, custom.body("probe"), params={"dryRun": "All"})
        return guard.metric("genguard_reviews_total", resource=custom.resource) > 0

    wait_until(counted_by_name, what=f"{custom.resource} learned")


def test_one_with_a_status_subresource_is_learned_and_examined_right(
    cluster: ControlPlane, namespace: NamespaceFactory, connected: Genguard
) -> None:
    name = namespace(cluster)
    trail = AuditTrail(cluster, name)
    with (
        registered(cluster, name, connected, rules=[WATCHED]),
        served(cluster, name, status_subresource=True) as widgets,
    ):
        learned(connected, widgets)
        found = widgets.create(spec={"size": 1})
        condition = READY | {"observedGeneration": 1}
        status = {"observedGeneration": 1, "conditions": [condition], "size": 1}
        found = widgets.put(found, "status", status=status)
        assert found["metadata"]["generation"] == 1

        # A stale copy of status on the main endpoint is no write of it.
        found = widgets.put(found, spec={"size": 2}, status={"size": 9})
        assert found["metadata"]["generation"] == 2
        assert found["status"] == status

        cleared = {"observedGeneration": 0, "conditions": [READY], "size": 2}
        found = widgets.put(found, "status", status=cleared)
        assert found["status"] == status | {"size": 2}
        assert found["metadata"]["generation"] == 2
    assert trail.said("widgets", name="one") == [
        {"generation": "1 created"},
        {"generation": "2 spec-changed"},
    ]
    places = "status.observedGeneration=1 status.conditions.0.observedGeneration=1"
    assert trail.said("widgets/status", name="one") == [{PRESERVE: f"set {places}"}]


def test_one_without_a_status_subresource_is_learned_and_examined_right(
    cluster: ControlPlane, namespace: NamespaceFactory, connected: Genguard
) -> None:
    name = namespace(cluster)
    trail = AuditTrail(cluster, name)
    with (
        registered(cluster, name, connected, rules=[WATCHED]),
        served(cluster, name, status_subresource=False) as widgets,
    ):
        learned(connected, widgets)
        found = widgets.create(spec={"size": 1})
        found = widgets.put(found, status={"observedGeneration": 1})
        assert found["metadata"]["generation"] == 2  # status counts here

        found = widgets.put(found, spec={"size": 2}, status={"size": 2})
        assert found["metadata"]["generation"] == 3
        assert found["status"] == {"size": 2, "observedGeneration": 1}
    said = trail.said("widgets", name="one")
    # The API server may begin with an older object of its cache and try again; the annotation of
    # its first try stands, so which number it tells is not certain here.
    assert [told.pop("generation").partition(" ")[2] for told in said] == [
        "created",
        "spec-changed",
        "spec-changed",
    ]
    assert said == [{}, {}, {PRESERVE: "set status.observedGeneration=1"}]


def test_a_write_that_only_cleared_is_no_change_once_mended(
    cluster: ControlPlane, namespace: NamespaceFactory, connected: Genguard
) -> None:
    name = namespace(cluster)
    trail = AuditTrail(cluster, name)
    with (
        registered(cluster, name, connected, rules=[WATCHED]),
        served(cluster, name, status_subresource=False) as widgets,
    ):
        learned(connected, widgets)
        found = widgets.create(status={"observedGeneration": 1})
        again = widgets.put(found, status={})
        assert again["status"] == {"observedGeneration": 1}
        assert again["metadata"]["generation"] == 1
    assert PRESERVE in trail.said("widgets", name="one")[-1]


def test_without_a_kubeconfig_it_says_what_it_cannot_know(
    cluster: ControlPlane, namespace: NamespaceFactory
) -> None:
    name = namespace(cluster)
    trail = AuditTrail(cluster, name)
    with (
        Genguard() as guard,
        registered(cluster, name, guard, rules=[WATCHED]),
        served(cluster, name, status_subresource=False) as widgets,
    ):
        found = widgets.create(spec={"size": 1})
        found = widgets.put(found, status={"observedGeneration": 1})
        assert found["metadata"]["generation"] == 2
        found = widgets.put(found, spec={"size": 2})
        assert found["metadata"]["generation"] == 3
        assert guard.metric("genguard_reviews_total", resource="other") > 0
    created, told, changed = trail.said("widgets", name="one")
    assert created == {"generation": "1 created", "assign-generation": "set metadata.generation=1"}
    assert told == {"generation": "unknown: whether status is a subresource is not known"}
    # As above: the number may be the one of a first try with an older object.
    assert changed["generation"].endswith("spec-changed")
