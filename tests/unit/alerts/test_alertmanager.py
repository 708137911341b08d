"""Alerts as a real HTTP server receives them: each peer, again in time, and resolved."""

import json
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from urllib.parse import parse_qsl, urlsplit

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, unused_port

from genguard.detection.finding import Severity
from tests.unit.alerts.findings import BEGUN, CANARY, Clock, change, finding, on, own
from webhook.alerts.alertmanager import (
    LIFETIME,
    RESEND,
    AlertmanagerSink,
    alert_labels,
    silence_form,
)
from webhook.alerts.change import Transition

OPENED = (change(Transition.OPENED),)


class Peer:
    """Takes alerts as Alertmanager's API v2 does."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.posts: list[list[dict]] = []

    async def receive(self, request: web.Request) -> web.Response:
        self.posts.append(await request.json())
        return web.Response(status=self.status, headers={"Location": "/elsewhere"})

    @property
    def last(self) -> dict:
        (alert,) = self.posts[-1]
        return alert


@asynccontextmanager
async def served(peer: Peer) -> AsyncIterator[str]:
    application = web.Application()
    application.router.add_post("/api/v2/alerts", peer.receive)
    async with TestServer(application) as server:
        yield str(server.make_url("/"))


@pytest.fixture
def clock():
    return Clock()


RUNBOOKS = "https://wiki.example.org/runbooks"


@pytest.fixture
async def peer():
    return Peer()


@pytest.fixture
async def sink(peer, clock):
    async with served(peer) as url:
        yield AlertmanagerSink([url], RUNBOOKS, clock)


def time(text: str) -> datetime:
    return datetime.fromisoformat(text)


async def test_a_finding_is_told_with_object_actor_and_runbook(sink, peer, clock):
    await sink.tell(OPENED, (finding(),))
    assert peer.last == {
        "labels": {
            "alertname": "GenguardLoop",
            "finding": "0123456789abcdef",
            "detector": "observed-generation-cleared",
            "group": "apps",
            "resource": "deployments",
            "namespace": "shop",
            "name": "web",
        },
        "annotations": {
            "summary": "observed-generation-cleared on deployments shop/web.",
            "description": "another webhook cleared 1 observedGeneration value(s) that controller "
            "sent. 3 times. By: old-operator/hook (certain).",
            "severity": "warning",
            "runbook_url": f"{RUNBOOKS}/observed-generation-cleared",
        },
        "startsAt": BEGUN,
        "endsAt": (clock.now + LIFETIME).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    }
    assert CANARY not in json.dumps(peer.posts)


async def test_an_alert_stays_the_same_one_whatever_else_becomes_of_it(sink, peer, clock):
    """Alertmanager knows an alert by its labels."""
    later = {"count": 99, "message": "other", "last_seen": "later", "actors": (), "paths": ()}
    await sink.tell(OPENED, (finding(),))
    labels = peer.last["labels"]
    clock.go(1)
    worse = change(Transition.ESCALATED, severity=Severity.CRITICAL, **later)
    await sink.tell((worse,), (worse.finding,))
    assert peer.last["labels"] == labels
    assert peer.last["annotations"]["severity"] == "critical"
    clock.go(1)
    over = change(Transition.RESOLVED, severity=Severity.CRITICAL, **later)
    await sink.tell((over,), (over.finding,))
    assert peer.last["labels"] == labels
    assert len(peer.posts) == 3


async def test_what_stays_open_is_sent_again_before_its_lifetime_is_over(sink, peer, clock):
    open_now = (finding(),)
    await sink.tell(OPENED, open_now)
    lasts_until = time(peer.last["endsAt"])
    for _ in range(600):  # looks, one a second
        clock.go(1)
        before = len(peer.posts)
        await sink.tell((), open_now)
        assert clock.now < lasts_until
        if len(peer.posts) > before:
            lasts_until = time(peer.last["endsAt"])
    assert len(peer.posts) == 1 + 600 // RESEND.seconds
    assert 2 * RESEND + timedelta(seconds=30) <= LIFETIME, "one that is lost does not resolve it"


async def test_the_alert_of_a_finding_that_had_no_room_any_more_does_not_end(sink, peer, clock):
    clock.now = time(finding().last_seen)
    await sink.tell(OPENED, (finding(),))
    for _ in range(10):
        clock.go(RESEND.seconds)
        await sink.tell((), ())
        assert time(peer.last["endsAt"]) == clock.now + LIFETIME
    clock.go(24 * 3_600)
    await sink.tell((), ())
    assert len(peer.posts) == 11, "nobody will ever know that it is over"


async def test_where_the_clock_is_put_back_an_hour_it_is_sent_again_and_begins_before_it_ends(
    sink, peer, clock
):
    clock.go(3_600)
    opened = finding(first_seen=clock.now.isoformat().replace("+00:00", "Z"))
    await sink.tell((change(Transition.OPENED, first_seen=opened.first_seen),), (opened,))
    clock.go(-3_600)
    await sink.tell((), (opened,))
    assert len(peer.posts) == 2
    assert time(peer.last["startsAt"]) == clock.now < time(peer.last["endsAt"])


async def test_what_is_resolved_ends_now_and_is_not_sent_again(sink, peer, clock):
    await sink.tell(OPENED, (finding(),))
    clock.go(7)
    over = change(Transition.RESOLVED)
    await sink.tell((over,), (over.finding,))
    assert time(peer.last["endsAt"]) == clock.now
    for _ in range(3):
        clock.go(RESEND.seconds)
        await sink.tell((), (over.finding,))
    assert len(peer.posts) == 2


async def test_one_peer_that_is_down_does_not_stop_the_other_and_is_told_when_it_is_back(
    clock, caplog
):
    up, port = Peer(), unused_port()
    async with served(up) as url:
        sink = AlertmanagerSink([f"http://127.0.0.1:{port}", url], RUNBOOKS, clock)
        await sink.tell(OPENED, (finding(),))
        assert len(up.posts) == 1
        (line,) = own(caplog)
        assert (line.levelno, line.message) == (logging.WARNING, "alertmanager not reached")
        assert line.fields["url"] == f"http://127.0.0.1:{port}/api/v2/alerts"

        back = Peer()
        application = web.Application()
        application.router.add_post("/api/v2/alerts", back.receive)
        async with TestServer(application, port=port):
            clock.go(RESEND.seconds)
            await sink.tell((), (finding(),))
        assert len(up.posts) == 2
        assert back.posts == up.posts[1:]


@pytest.mark.parametrize("status", [301, 400, 500, 503])
async def test_a_peer_that_refuses_is_logged_with_its_status(clock, caplog, status):
    refusing, well = Peer(status), Peer()
    async with served(refusing) as one, served(well) as two:
        sink = AlertmanagerSink([one, two], RUNBOOKS, clock)
        await sink.tell(OPENED, (finding(),))
    assert len(refusing.posts) == len(well.posts) == 1, "no redirect is followed"
    (line,) = own(caplog)
    assert line.fields["reason"] == f"it answered {status}"


def test_the_form_of_a_new_silence_is_filled_in_with_the_labels_of_the_alert():
    link = urlsplit(silence_form("http://alertmanager:9093/", finding(object=on('we"b'))))
    path, _, query = link.fragment.partition("?")
    ((name, matchers),) = parse_qsl(query)
    assert (link.netloc, path, name) == ("alertmanager:9093", "/silences/new", "filter")
    told = dict(re.findall(r'(\w+)=("(?:[^"\\]|\\.)*")', matchers))
    assert {key: json.loads(text) for key, text in told.items()} == alert_labels(
        finding(object=on('we"b'))
    )
