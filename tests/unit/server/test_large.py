"""Large reviews wait for their turn, and touch what is shared on the event loop alone."""

import asyncio
import threading
from dataclasses import replace

import pytest

from webhook.admission.join import JoinKey
from webhook.objects.intended import Intended
from webhook.objects.observed import NOTHING_OBSERVED
from webhook.review_setup import ReviewOptions, ReviewSetup
from webhook.server.body import OverloadedError
from webhook.server.large import LargeReviews, for_thread
from webhook.server.limits import Limits

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
    own = replace(
        ReviewSetup(ReviewOptions()).dependencies,
        intents=intents,
        rounds=rounds,
        about=lambda: told,
    )
    deps = for_thread(own)

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


async def test_what_fails_on_the_event_loop_is_raised_in_the_thread():
    def fails():
        raise LookupError("no such thing")

    deps = for_thread(replace(ReviewSetup(ReviewOptions()).dependencies, about=fails))
    with pytest.raises(LookupError):
        await asyncio.to_thread(deps.about)


async def holding(turns: LargeReviews, size: int, order: list[int], until: asyncio.Event) -> None:
    async with turns.turn(size):
        order.append(size)
        await until.wait()


async def test_one_is_judged_at_a_time_and_in_the_order_in_which_they_came():
    turns, order, until = LargeReviews(Limits()), [], asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for size in (3, 1, 2):
            group.create_task(holding(turns, size, order, until))
        for _ in range(10):
            await asyncio.sleep(0)
        assert order == [3]
        until.set()
    assert order == [3, 1, 2]


@pytest.mark.parametrize(
    ("limits", "because"),
    [
        (Limits(large_reviews=2), "two are there already"),
        (Limits(large_bytes=29), "the third has no room"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_over_the_bounds_the_client_is_asked_to_come_again(limits, because):
    turns, order, until = LargeReviews(limits), [], asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(holding(turns, 10, order, until))
        await asyncio.sleep(0)
        with pytest.raises(OverloadedError):
            async with turns.turn(10):
                pass
        until.set()
    async with turns.turn(10):
        order.append(0)
    assert order == [10, 10, 0], "what was taken is given back"
