"""Silences as a real HTTP server receives them that behaves as Alertmanager's API v2 does."""

import itertools
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, unused_port
from msgspec.structs import replace

from genguard.detection.finding import Severity
from genguard.detection.silences import Action, Silence, Silences
from tests.unit.alerts.findings import finding, own
from webhook.alerts.silencing import AlertmanagerSilencer

NOW = 1_800_000_000.0
FINDING = finding()
ENTRY = Silence(FINDING.id, Action.SILENCED, "GG-17", "ana", NOW, NOW + 3_600.0, Severity.WARNING)
ABOUT_IT = [{"name": "finding", "value": FINDING.id, "isRegex": False, "isEqual": True}]


class Peer:
    """Keeps silences; `status` other than 0 refuses everything."""

    def __init__(self) -> None:
        self.silences: dict[str, dict] = {}
        self.status = 0
        self.asked: list[str] = []
        self._numbers = itertools.count()

    def add(self, **changed) -> str:
        name = changed.pop("id", "") or f"s-{next(self._numbers)}"
        self.silences[name] = {
            "matchers": ABOUT_IT,
            "startsAt": text(NOW),
            "endsAt": text(NOW + 3_600),
            "createdBy": "genguard",
            "comment": "GG-17 (ana)",
            **changed,
            "id": name,
            "status": {"state": "active"},
            "updatedAt": text(NOW),
        }
        return name

    @property
    def active(self) -> list[dict]:
        return [one for one in self.silences.values() if one["status"]["state"] == "active"]

    async def handle(self, request: web.Request) -> web.Response:
        self.asked.append(request.method)
        if self.status:
            return web.Response(status=self.status)
        if request.method == "GET":
            return web.json_response(list(self.silences.values()))
        if request.method == "POST":
            return web.json_response({"silenceID": self.add(**await request.json())})
        self.silences[request.match_info["id"]]["status"] = {"state": "expired"}
        return web.Response()


def text(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


@asynccontextmanager
async def served(peer: Peer) -> AsyncIterator[str]:
    application = web.Application()
    application.router.add_route("*", "/api/v2/silences", peer.handle)
    application.router.add_route("*", "/api/v2/silence/{id}", peer.handle)
    async with TestServer(application) as server:
        yield str(server.make_url("/"))


class Clock:
    now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def silences():
    return Silences()


@pytest.fixture
def peer():
    return Peer()


@pytest.fixture
async def sink(peer, silences, clock):
    async with served(peer) as url:
        made = AlertmanagerSilencer([url], silences, clock)
        yield made
        await made.close()


@pytest.fixture
def silenced(sink, silences):
    silences.put(ENTRY, NOW)
    return sink


async def test_a_silence_is_created_with_its_reason_and_its_end(sink, silences, peer):
    silences.put(ENTRY, NOW)
    await sink.tell((), (FINDING,))
    (made,) = peer.active
    assert made["matchers"] == ABOUT_IT
    assert made["comment"] == "GG-17 (ana)"
    assert made["createdBy"] == "genguard"
    assert made["endsAt"].startswith(text(NOW + 3_600)[:19])


async def test_while_nothing_is_silenced_nobody_is_asked(sink, peer):
    await sink.tell((), (FINDING,))
    assert peer.asked == []


async def test_an_acknowledged_finding_notifies_on(sink, silences, peer):
    silences.put(replace(ENTRY, action=Action.ACKNOWLEDGED), NOW)
    await sink.tell((), (FINDING,))
    assert peer.active == []


async def test_what_is_as_it_should_be_is_left_alone(sink, silences, peer, clock):
    silences.put(ENTRY, NOW)
    await sink.tell((), (FINDING,))
    await sink.tell((), (FINDING,))
    assert peer.asked == ["GET", "POST"], "asked again only after a while"
    clock.now += 61
    await sink.tell((), (FINDING,))
    assert peer.asked == ["GET", "POST", "GET"]


async def test_another_end_or_reason_changes_the_same_silence(sink, silences, peer):
    silences.put(ENTRY, NOW)
    await sink.tell((), (FINDING,))
    silences.put(replace(ENTRY, until=NOW + 7_200.0, reason="GG-18", at=NOW + 1), NOW)
    await sink.tell((), (FINDING,))
    (made,) = peer.active
    assert made["comment"] == "GG-18 (ana)"
    assert made["endsAt"].startswith(text(NOW + 7_200)[:19])


async def test_what_is_ended_early_ends_there(sink, silences, peer):
    silences.put(ENTRY, NOW)
    await sink.tell((), (FINDING,))
    silences.end(FINDING.id, "", NOW + 1)
    await sink.tell((), (FINDING,))
    assert peer.active == []


async def test_what_becomes_worse_notifies_again(sink, silences, peer):
    silences.put(ENTRY, NOW)
    await sink.tell((), (FINDING,))
    await sink.tell((), (replace(FINDING, severity=Severity.CRITICAL),))
    assert peer.active == []


async def test_a_silence_that_ended_there_is_created_again(sink, silences, peer, clock):
    silences.put(ENTRY, NOW)
    await sink.tell((), (FINDING,))
    peer.silences.clear()
    clock.now += 61
    await sink.tell((), (FINDING,))
    assert len(peer.active) == 1


async def test_doubles_are_removed_and_silences_of_others_stay(sink, silences, peer):
    kept = [
        peer.add(createdBy="ana"),
        peer.add(matchers=[*ABOUT_IT, {**ABOUT_IT[0], "name": "namespace"}]),
        peer.add(matchers=[{**ABOUT_IT[0], "isRegex": True}]),
        peer.add(matchers=[{**ABOUT_IT[0], "value": "a finding that this replica does not know"}]),
    ]
    first, second = peer.add(), peer.add()
    silences.put(ENTRY, NOW)
    await sink.tell((), (FINDING,))
    assert [one["id"] for one in peer.active] == [*kept, first]
    assert peer.silences[second]["status"] == {"state": "expired"}


async def test_each_peer_is_told_one_after_the_other(silences, clock):
    one, other = Peer(), Peer()
    silences.put(ENTRY, NOW)
    async with served(one) as first, served(other) as second:
        sink = AlertmanagerSilencer([first, second], silences, clock)
        await sink.tell((), (FINDING,))
        assert (len(one.active), len(other.active)) == (1, 0)
        await sink.tell((), (FINDING,))
        assert (len(one.active), len(other.active)) == (1, 1)
        await sink.close()


@pytest.mark.parametrize("status", [302, 403, 500])
async def test_a_refusal_is_logged_and_tried_again(silenced, peer, clock, caplog, status):
    sink, peer.status = silenced, status
    with caplog.at_level(logging.WARNING):
        await sink.tell((), (FINDING,))
    assert [one.facts["reason"] for one in own(caplog)] == [str(status)]
    peer.status = 0
    clock.now += 61
    await sink.tell((), (FINDING,))
    assert len(peer.active) == 1


async def test_a_peer_that_is_gone_is_logged(silences, clock, caplog):
    silences.put(ENTRY, NOW)
    sink = AlertmanagerSilencer([f"http://127.0.0.1:{unused_port()}"], silences, clock)
    with caplog.at_level(logging.WARNING):
        await sink.tell((), (FINDING,))
    assert [one.message for one in own(caplog)] == ["silences not mirrored"]
    await sink.close()
