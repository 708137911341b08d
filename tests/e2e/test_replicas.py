"""Three genguards and one store examine as one, and a store that is lost costs no write."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import NamedTuple

import pytest

from tests.beside import Again
from tests.controlplane.client import ApiError, wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.controlplane.webhook_listener import WebhookListener
from tests.e2e.culprits import OLD_OPERATOR, is_ready, pod, removes_observed_generation
from tests.e2e.registrations import registered
from tests.e2e.replicas import Replicas
from tests.e2e.traffic import passed_unseen
from tests.nightly import by_day
from tests.scenarios.catalogue import catalogue
from tests.scenarios.expecting import Result, complaints, expectations
from tests.scenarios.scene import Json, Scene, Stored
from tests.scenarios.stage import CUSTOM, define, disturbed
from tests.store.alertmanager import Alertmanager
from tests.store.loop import findings
from tests.store.proxy import Proxy
from tests.store.server import StoreServer

_PASSWORD = "changed-by-somebody"  # noqa: S105
_WRITERS = 3


class Shared(NamedTuple):
    """What the tests of this module have in common."""

    plane: ControlPlane
    store: StoreServer
    proxy: Proxy
    alertmanager: Alertmanager
    guards: Replicas


@pytest.fixture(scope="module")
def shared(cluster: ControlPlane) -> Iterator[Shared]:
    with StoreServer() as store, Proxy(store.socket) as proxy, Alertmanager() as alertmanager:
        define(cluster)
        flags = (
            f"--store=valkey://127.0.0.1:{proxy.port}/0",
            f"--kubeconfig={cluster.kubeconfig}",
            "--findings-configmap=genguard-findings",
            f"--alertmanager={alertmanager.url}",
            "--events",
        )
        with Replicas(*flags) as guards:
            guards.wait_for_store()
            wait_until(lambda: guards.metric("genguard_leader") == 1, what="one that leads")
            yield Shared(cluster, store, proxy, alertmanager, guards)


@contextmanager
def _clearing(shared: Shared, namespace: str, resource: str) -> Iterator[WebhookListener]:
    """An old operator between genguard's two mutating registrations."""
    with (
        WebhookListener(shared.plane.authority, removes_observed_generation) as culprit,
        culprit.registered(shared.plane, namespace, [resource], name=OLD_OPERATOR),
        registered(shared.plane, namespace, shared.guards, rules=CUSTOM),
    ):
        yield culprit


def test_the_loop_of_kep_5067_ends_though_intents_come_in_elsewhere(
    shared: Shared, namespace: NamespaceFactory
) -> None:
    name = namespace(shared.plane)
    path = f"/api/v1/namespaces/{name}/pods"
    guards = shared.guards
    fetched = sum(one.asked("fetch", "ok") for one in guards.endpoints)
    with _clearing(shared, name, "pods/status") as culprit:
        shared.plane.client.post(path, pod())
        get = lambda: shared.plane.client.get(f"{path}/one").body  # noqa: E731
        wait_until(lambda: is_ready(get()), what="a ready pod")
        wait_until(lambda: get()["status"].get("observedGeneration") == 1, what="observed")
        wait_until(lambda: _is_quiet(culprit), every=0, what="quiet")
        seen = guards.spread(resource="pods", subresource="status")
    assert sum(one.asked("fetch", "ok") for one in guards.endpoints) > fetched
    for phase, counts in seen.items():
        # A write upon a version that is no longer the latest has no outcome.
        assert sum(counts) >= sum(seen["outcome"]) > 0, phase
    assert guards.metric("genguard_mends_total", rule="restore-intent", resource="pods") >= 1


CLOBBERED = ("observed-generation-cleared", "status-clobbered")
"""Detectors that count each write that another webhook has spoilt."""
BY_WEBHOOK = ("custom-status-zeroed", "phase-overwritten")
"""The steps that end them are no new program: they can be tried on the last writes."""
SPREAD = (*BY_WEBHOOK, "one-condition-of-two-owners")


@pytest.mark.parametrize("name", SPREAD)
def test_a_loop_is_one_finding_with_one_count_wherever_its_writes_were_seen(
    shared: Shared, namespace: NamespaceFactory, name: str
) -> None:
    plane, guards, played = shared.plane, shared.guards, catalogue()[name]
    where = namespace(plane)
    with (
        disturbed(plane, played, where) as listeners,
        registered(plane, where, guards, rules=CUSTOM),
    ):
        played.act(Scene(plane, where))
        clobbered = sum(len(listener.reviews) for listener in listeners)
        found = wait_until(lambda: _counted(guards, where, clobbered), what="each write counted")
        assert not list(complaints(Result(found), expectations()[name]))
        assert ("of" in _trials(found)) == (name in BY_WEBHOOK)
        names = {one["id"] for one in found}
        for replica in guards.endpoints:
            shows = lambda one=replica: guards.findings(namespace=where, of=one).keys() == names  # noqa: E731
            wait_until(shows, what="the same findings everywhere")
        _assert_told_once(shared, where, found)


def _trials(found: list[Json]) -> set[str]:
    """What is known of the steps that could be tried on the last writes."""
    return {key for one in found for step in one["fix"] for key in step.get("trial", ())}


def _counted(guards: Replicas, namespace: str, clobbered: int) -> list[Json]:
    """What the leader shows; what others clobbered is counted once."""
    found = [
        one
        for one in guards.leader.findings()
        if "objects" not in one and one["object"]["namespace"] == namespace
    ]
    counts = [one["count"] for one in found if one["detector"] in CLOBBERED]
    assert found
    assert counts == [clobbered] * len(counts)
    return found


def _assert_told_once(shared: Shared, namespace: str, found: list[Json]) -> None:
    """One replica makes the Events, logs and sends alerts."""
    loud = {one["id"] for one in found if one["severity"] != "info"}
    assert loud

    def alerted() -> bool:
        return loud <= {each["labels"]["finding"] for each in shared.alertmanager.alerts}

    path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
    events = wait_until(lambda: shared.plane.client.get(path).body["items"], what="an Event")
    turns = [(one["reason"], one["action"]) for one in events]
    assert len(turns) == len(set(turns))
    lines = shared.guards.logged(
        lambda line: line["message"].startswith("finding ") and line["namespace"] == namespace
    )
    turns = [(line["message"], line["id"]) for line in lines]
    assert loud <= {line["id"] for line in lines}
    assert len(turns) == len(set(turns))
    wait_until(alerted, what="alerts")


def _is_quiet(culprit: WebhookListener) -> bool:
    before = len(culprit.reviews)
    time.sleep(1.0)
    return len(culprit.reviews) == before


class Writers:
    """Controllers that report without a pause what an old operator clears each time."""

    def __init__(self, shared: Shared, namespace: str) -> None:
        scene = Scene(shared.plane, namespace)
        self._widgets = [scene.widget(f"of-{number}") for number in range(_WRITERS)]
        self._client = shared.plane.client
        self.failed: list[str] = []
        self.writes = 0
        self.cleared = 0
        self.restored = 0
        """How many of the latest writes were stored as they were sent."""

    @contextmanager
    def running(self) -> Iterator["Writers"]:
        with ExitStack() as stack:
            for widget in self._widgets:
                write = partial(self._write, widget)
                stack.enter_context(Again(write, 0.0, done=self._client.close))
            yield self

    def more(self, writes: int = 30) -> None:
        """Wait for so many more."""
        target = self.writes + writes
        wait_until(lambda: self.writes >= target, what="writes")

    def _write(self, widget: Stored, turn: int) -> None:
        number = turn + 1
        try:
            stored = widget.status("widget-controller", observedGeneration=number)
        except ApiError as error:
            self.failed.append(str(error))
        else:
            is_restored = stored["status"].get("observedGeneration") == number
            self.restored = self.restored + 1 if is_restored else 0
            self.cleared += not is_restored
            self.writes += 1


def _lock(shared: Shared) -> None:
    shared.store.run("CONFIG", "SET", "requirepass", _PASSWORD)
    shared.proxy.drop()


def _unlock(shared: Shared) -> None:
    shared.store.run("CONFIG", "SET", "requirepass", "", password=_PASSWORD)


def _slow(shared: Shared, seconds: float = 2.0) -> None:
    shared.proxy.delay = seconds


def _fill(shared: Shared, most: int = 1) -> None:
    shared.store.run("CONFIG", "SET", "maxmemory", most)


Step = Callable[[Shared], None]
TROUBLES: dict[str, tuple[Step, Step]] = {
    "paused": (lambda shared: shared.store.pause(), lambda shared: shared.store.go_on()),
    "slowed by two seconds": (_slow, lambda shared: _slow(shared, 0)),
    "full": (_fill, lambda shared: _fill(shared, 0)),
    "locked by another password": (_lock, _unlock),
    "killed and restarted": (
        lambda shared: shared.store.kill(),
        lambda shared: shared.store.start(),
    ),
}


@pytest.mark.parametrize("trouble", by_day([*TROUBLES], these=["paused", "killed and restarted"]))
def test_no_write_fails_and_no_call_is_missed_while_the_store_is(
    shared: Shared, namespace: NamespaceFactory, trouble: str
) -> None:
    begin, end = TROUBLES[trouble]
    guards, name = shared.guards, namespace(shared.plane)
    with _clearing(shared, name, "widgets/status") as culprit:
        guards.wait_for_store()
        missed = passed_unseen(shared.plane)
        with Writers(shared, name).running() as writers:
            writers.more()
            stored = _cleared(guards.findings(namespace=name))
            begin(shared)
            try:
                wait_until(
                    lambda: not any(one.has_store for one in guards.endpoints),
                    what="the store lost",
                )
                cleared = writers.cleared
                writers.more()
                assert writers.cleared > cleared, "intents that came in elsewhere are not known"
            finally:
                end(shared)
            guards.wait_for_store()
            # On a busy machine even a good store is late at times.
            wait_until(lambda: writers.restored >= 20, what="all restored, whoever saw the intent")
        assert writers.failed == []
        assert passed_unseen(shared.plane) == missed, guards.logged(bool)[-20:]
        wait_until(
            lambda: _cleared(guards.findings(namespace=name)) >= stored, what="all that was found"
        )
        widget = Scene(shared.plane, name).widget("afterwards")
        for number in range(10):
            widget.status("widget-controller", observedGeneration=number + 1)

        def counted() -> bool:
            # A PATCH that begins with what the API server's cache still has is run twice.
            asked = [one["request"]["name"] for one in culprit.reviews].count("afterwards")
            assert asked >= 10
            assert _cleared(guards.findings(namespace=name), "afterwards") == asked
            return True

        wait_until(counted, what="every write that was cleared")


def _cleared(found: dict[str, Json], name: str = "") -> int:
    """How many writes were found to have been spoilt, of one object or of all."""
    return sum(
        one["count"]
        for one in found.values()
        if one["detector"] in CLOBBERED and name in ("", one["object"]["name"])
    )


def test_a_leader_that_is_killed_loses_no_finding_and_another_counts_on(
    shared: Shared, namespace: NamespaceFactory
) -> None:
    guards, name = shared.guards, namespace(shared.plane)
    with _clearing(shared, name, "widgets/status"), Writers(shared, name).running() as writers:
        found = wait_until(lambda: guards.findings(namespace=name), what="found")
        writers.more()
        wait_until(
            lambda: all(found.keys() <= findings(one).keys() for one in guards.endpoints),
            what="saved",
        )
        guards.kill_leader()
        before = findings(guards.leader)
        assert found.keys() <= before.keys()
        wait_until(
            lambda: all(
                findings(guards.leader)[one]["count"] > before[one]["count"] for one in found
            ),
            what="counted on",
        )
    assert writers.failed == []
    news = [
        line["id"]
        for one in guards.endpoints
        for line in one.log_lines("finding opened")
        if line["id"] in found
    ]
    assert news == [], "known by now"
