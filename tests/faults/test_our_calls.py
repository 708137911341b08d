"""genguard's own calls of the API server fail, under load: no write does, and it comes back.

An admission asks nobody (the shared store's fetch aside: e2e/test_replicas.py). So failures are
fatal here, and none is seen.
"""

import asyncio
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from aiohttp import web

from tests.controlplane.client import wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.controlplane.webhook_listener import WebhookListener
from tests.e2e.culprits import OLD_OPERATOR, deployment, zeroes_observed_generation
from tests.e2e.genguard import Genguard
from tests.e2e.registrations import registered
from tests.e2e.traffic import PATIENCE, Traffic
from tests.faults.faulty_api import FaultyApi, healthy, status

BACK_SECONDS = 60.0
"""A watch that has failed again and again is asked for again after a minute at most."""
WATCHED = "podtemplates"


class Connected(NamedTuple):
    """What the tests of this module have in common."""

    plane: ControlPlane
    api: FaultyApi
    guard: Genguard


@pytest.fixture(scope="module")
def connected(
    apiserver: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Connected]:
    kubeconfig = tmp_path_factory.mktemp("faulty") / "kubeconfig"
    with FaultyApi(apiserver, kubeconfig) as api:
        flags = (f"--kubeconfig={kubeconfig}", f"--watch={WATCHED}", "--events")
        with Genguard(*flags) as guard:
            yield Connected(apiserver, api, guard)


@pytest.fixture(autouse=True)
def _mended(connected: Connected) -> Iterator[None]:
    """No fault outlives its test."""
    yield
    connected.api.answer = healthy
    connected.api.cut()


async def _too_many(request: web.Request) -> web.StreamResponse | None:
    return status(429, "TooManyRequests")


async def _silence(request: web.Request) -> web.StreamResponse | None:
    await asyncio.Event().wait()
    return None


async def _no_connection(request: web.Request) -> web.StreamResponse | None:
    assert request.transport is not None
    request.transport.abort()
    return await _silence(request)


async def _expired(request: web.Request) -> web.StreamResponse | None:
    return status(410, "Expired") if request.query.get("watch") else None


def _cut(api: FaultyApi) -> None:
    api.cut()


def _expire(api: FaultyApi) -> None:
    """What is told in the stream of a watch that lags behind."""
    gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    api.tell_watches({"type": "ERROR", "object": gone})


class Fault(NamedTuple):
    """`answer`: what becomes of calls. `begin`: what becomes of watches that are open.

    told    a message in the log, and a pattern that its reason has; None: nobody has to know
    """

    answer: Any
    begin: Callable[[FaultyApi], None]
    told: tuple[str, str] | None


FAULTS = {
    "429": Fault(_too_many, _cut, ("cluster not reached", "TooManyRequests")),
    "no answer": Fault(_silence, _cut, ("events not created", "TimeoutError")),
    "connections lost": Fault(_no_connection, _cut, ("cluster not reached", "disconnected|reset")),
    # What is there is listed again.
    "watches expired as they begin": Fault(_expired, _cut, None),
    "watches expired in their stream": Fault(healthy, _expire, None),
}


@pytest.mark.parametrize("name", FAULTS)
def test_no_write_fails_while_its_own_calls_do_and_what_changed_meanwhile_is_known_afterwards(
    connected: Connected, namespace: NamespaceFactory, name: str
) -> None:
    plane, api, guard = connected
    fault, where = FAULTS[name], namespace(plane)
    _wait_until_current(guard)
    told, hits = len(guard.log_lines()), api.hits
    with (
        registered(plane, where, guard, failurePolicy="Fail", timeoutSeconds=PATIENCE),
        Traffic(plane, where) as traffic,
        WebhookListener(plane.authority, zeroes_observed_generation) as culprit,
    ):
        traffic.more(50)
        api.answer = fault.answer
        fault.begin(api)
        wait_until(lambda: api.hits > hits, what="calls that fail")
        with culprit.registered(plane, where, ["deployments/status"], name=OLD_OPERATOR):
            _loop(plane, where)
            wait_until(lambda: _found(guard, where), what="the loop found")
            wait_until(lambda: _is_told(guard, fault, told), what=f"{fault.told} in the log")
            traffic.more(200)
            assert guard.ops("/readyz")[0] == 200
            api.answer = healthy
            api.cut()
            wait_until(lambda: OLD_OPERATOR in guard.ops("/api/webhooks")[1], BACK_SECONDS)
        _wait_until_current(guard)
        wait_until(lambda: OLD_OPERATOR not in guard.ops("/api/webhooks")[1], BACK_SECONDS)
        traffic.more(50)
    assert traffic.failures == []


def _is_told(guard: Genguard, fault: Fault, since: int) -> bool:
    """Whether the log says so, in a line that was not there before."""
    if fault.told is None:
        return True
    message, pattern = fault.told
    lines = [line for line in guard.log_lines()[since:] if line["message"] == message]
    return any(re.search(pattern, line["reason"], re.IGNORECASE) for line in lines)


def _wait_until_current(guard: Genguard) -> None:
    current = lambda: guard.metric("genguard_watch_current", resource=WATCHED) == 1  # noqa: E731
    wait_until(current, BACK_SECONDS, what="the watch current")


def _loop(plane: ControlPlane, namespace: str) -> None:
    """Three times what was cleared is sent again: a finding that is told."""
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    plane.client.post(path, deployment())
    for replicas in range(1, 5):
        status = {"observedGeneration": 1, "replicas": replicas}
        plane.client.patch(f"{path}/web/status", {"status": status})


def _found(guard: Genguard, namespace: str) -> bool:
    return f'"namespace":"{namespace}"' in guard.ops("/api/findings")[1]


async def _no_events(request: web.Request) -> web.StreamResponse | None:
    is_event = request.method == "POST" and request.path.endswith("/events")
    return status(403, "Forbidden") if is_event else None


def test_a_finding_is_told_elsewhere_where_no_event_may_be_made(
    connected: Connected, namespace: NamespaceFactory
) -> None:
    plane, api, guard = connected
    where = namespace(plane)
    _wait_until_current(guard)
    with (
        registered(plane, where, guard, failurePolicy="Fail", timeoutSeconds=PATIENCE),
        Traffic(plane, where) as traffic,
        WebhookListener(plane.authority, zeroes_observed_generation) as culprit,
        culprit.registered(plane, where, ["deployments/status"], name=OLD_OPERATOR),
    ):
        told = len(guard.log_lines("event not created"))
        api.answer = _no_events
        _loop(plane, where)
        wait_until(lambda: guard.log_lines("event not created")[told:], what="a refused Event")
        api.answer = healthy
        traffic.more(50)
        wait_until(
            lambda: where in [line["namespace"] for line in guard.log_lines("finding opened")],
            what="the finding in the log",
        )
        assert _found(guard, where)
    assert traffic.failures == []
