"""A webhook that acts after genguard makes the API server ask it once more."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.controlplane.webhook_listener import Patch, WebhookListener
from tests.e2e.audit import AuditTrail, patched_by
from tests.e2e.culprits import OLD_OPERATOR, zeroes_observed_generation
from tests.e2e.custom import Custom, served
from tests.e2e.genguard import Genguard
from tests.e2e.registrations import registered, rule

LATE = "zzzzzzz-late"  # sorts after genguard's last
STATUS = ["widgets/status"]
MENDED = {"restore-intent": "set status.observedGeneration=1"}


def adds_a_note(request: Mapping[str, Any]) -> Patch:
    if "note" in request["object"].get("status", {}):
        return ()
    return [{"op": "add", "path": "/status/note", "value": "late"}]


@pytest.fixture(scope="module")
def guard() -> Iterator[Genguard]:
    with Genguard("--generation-patch=never") as running:
        yield running


@pytest.fixture
def widgets(
    cluster: ControlPlane, namespace: NamespaceFactory, guard: Genguard
) -> Iterator[Custom]:
    """Guarded ones; afterwards the API server has not refused any audit annotation."""
    name, logged = namespace(cluster), len(cluster.log("kube-apiserver"))
    with (
        served(cluster, name, status_subresource=True) as found,
        registered(cluster, name, guard, rules=[rule(STATUS, ["UPDATE"])]),
    ):
        yield found
    lines = cluster.log("kube-apiserver")[logged:].splitlines()
    assert [line for line in lines if "genguard.io/" in line and "annotation" in line] == []


class Counted:
    """How often genguard was asked to mutate, and how often it mended, since this was made."""

    def __init__(self, guard: Genguard) -> None:
        self._guard = guard
        self._before = self._now()

    def _now(self) -> tuple[float, float]:
        asked = self._guard.metric("genguard_reviews_total", phase="mutate", operation="UPDATE")
        return asked, self._guard.metric("genguard_mends_total")

    def is_asked_at_least(self, times: int, *, mended: int) -> bool:
        """Whether it mended so often, in so many calls; an API server may ask once more."""
        now = self._now()
        asked = now[0] - self._before[0]
        return times <= asked <= times + 1 and now[1] - self._before[1] == mended


def test_asked_again_it_makes_no_second_change_and_repeats_its_annotation(
    cluster: ControlPlane, widgets: Custom, guard: Genguard
) -> None:
    trail = AuditTrail(cluster, widgets.namespace)
    with (
        WebhookListener(cluster.authority, zeroes_observed_generation) as early,
        early.registered(cluster, widgets.namespace, STATUS, name=OLD_OPERATOR),
        WebhookListener(cluster.authority, adds_a_note) as late,
        late.registered(cluster, widgets.namespace, STATUS, name=LATE),
    ):
        made, counted = widgets.create(), Counted(guard)
        stored = widgets.put(made, "status", status={"observedGeneration": 1})
    assert stored["status"] == {"observedGeneration": 1, "note": "late"}
    assert counted.is_asked_at_least(2, mended=1)
    (event,) = trail.events("widgets/status")
    assert patched_by(event) == ["0"]
    assert trail.said("widgets/status") == [MENDED]


def test_what_a_later_webhook_clears_is_restored_when_asked_again(
    cluster: ControlPlane, widgets: Custom, guard: Genguard
) -> None:
    trail = AuditTrail(cluster, widgets.namespace)
    with (
        WebhookListener(cluster.authority, zeroes_observed_generation) as late,
        late.registered(cluster, widgets.namespace, STATUS, name=LATE),
    ):
        made, counted = widgets.create(), Counted(guard)
        stored = widgets.put(made, "status", status={"observedGeneration": 1})
    assert stored["status"] == {"observedGeneration": 1}
    assert counted.is_asked_at_least(2, mended=1)
    (event,) = trail.events("widgets/status")
    assert patched_by(event) == ["1"]
    assert trail.said("widgets/status") == [MENDED]


def test_what_an_earlier_webhook_clears_twice_is_restored_twice_and_told_once(
    cluster: ControlPlane, widgets: Custom, guard: Genguard
) -> None:
    trail = AuditTrail(cluster, widgets.namespace)
    with (
        WebhookListener(cluster.authority, zeroes_observed_generation) as early,
        early.registered(
            cluster, widgets.namespace, STATUS, name=OLD_OPERATOR, reinvocationPolicy="IfNeeded"
        ),
    ):
        made, counted = widgets.create(), Counted(guard)
        stored = widgets.put(made, "status", status={"observedGeneration": 1})
        assert len(early.reviews) == 2
    assert stored["status"] == {"observedGeneration": 1}
    assert counted.is_asked_at_least(2, mended=2)
    (event,) = trail.events("widgets/status")
    assert patched_by(event) == ["0", "1"]
    assert trail.said("widgets/status") == [MENDED]
