"""Timeouts that are asked for, large reviews one at a time, and what a thread touches."""

import asyncio
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest

from genguard.admission.review import JoinKey
from genguard.objects.intended import Intended
from genguard.objects.observed import NOTHING_OBSERVED
from genguard.review_setup import ReviewOptions, ReviewSetup
from tests.cases_loader import Case, table
from webhook.server.admission import route_of
from webhook.server.body import Bodies, OverloadedError, for_thread
from webhook.server.options import Limits


@table("server/timeouts.yaml", "path", "seconds")
def test_the_api_servers_own_timeout_is_read(case: Case) -> None:
    assert route_of(case["path"])[1] == case["seconds"], case.because


def test_slow_senders_together_leave_room_below_the_memory_limit_of_the_deployment():
    assert Limits().body_bytes_in_flight <= 64 * 1024 * 1024


KEY = JoinKey("", "pods", "status", "default", "a", "uid", "someone", "7", dry_run=False)
INTENDED = Intended(NOTHING_OBSERVED)


class Remembered:
    """Intents and Rounds that note what is done to them, and in which thread."""

    def __init__(self) -> None:
        self.calls = []

    def put(self, key, value, now):
        self.calls.append(("put", key, value, now, threading.get_ident()))

    def get(self, key, now):
        self.calls.append(("get", key, now, threading.get_ident()))
        return INTENDED

    def forget(self, key):
        self.calls.append(("forget", key, threading.get_ident()))


async def test_what_is_shared_is_touched_on_the_event_loop():
    intents, rounds, here = Remembered(), Remembered(), threading.get_ident()
    told = {"mode": "enforcing"}
    own = ReviewSetup(ReviewOptions()).dependencies
    deps = for_thread(replace(own, intents=intents, rounds=rounds, about=lambda: told))

    def work():
        deps.intents.put(KEY, INTENDED, 1.0)
        deps.rounds.put(KEY, {"a": "b"}, 2.0)
        deps.rounds.forget(KEY)
        assert threading.get_ident() != here
        return deps.intents.get(KEY, 3.0), deps.rounds.get(KEY, 4.0), deps.about()

    assert await asyncio.to_thread(work) == (INTENDED, INTENDED, told)
    assert intents.calls == [("put", KEY, INTENDED, 1.0, here), ("get", KEY, 3.0, here)]
    assert rounds.calls == [
        ("put", KEY, {"a": "b"}, 2.0, here),
        ("forget", KEY, here),
        ("get", KEY, 4.0, here),
    ]


async def test_a_body_for_which_a_late_one_makes_room_is_read():
    """A body that is late holds what it has read until its task has ended."""
    bodies, waits = Bodies(Limits(body_bytes_in_flight=10)), asyncio.Event()

    async def late():
        yield b"12345678"
        try:
            await waits.wait()
        finally:
            await waits.wait()

    async def in_time():
        yield b"12345678"
        yield b""

    begun = asyncio.create_task(bodies._read(SimpleNamespace(readany=late().__anext__), 0.01))
    await asyncio.sleep(0.05)
    assert await bodies._read(SimpleNamespace(readany=in_time().__anext__), 5) == b"12345678"
    waits.set()
    with pytest.raises(OverloadedError):
        await begun
