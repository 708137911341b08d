"""Large reviews wait for their turn, and touch what is shared on the event loop alone."""

import asyncio
import json
import threading
from dataclasses import replace

import pytest

from genguard.admission.review import JoinKey
from genguard.objects.intended import Intended
from genguard.objects.observed import NOTHING_OBSERVED
from genguard.review_setup import ReviewOptions, ReviewSetup
from tests.reviews import make_review
from webhook.server.body import OverloadedError
from webhook.server.large import LargeReviews, for_thread, is_large, user_of
from webhook.server.limits import LARGE_BYTES, LARGE_VALUES, Limits

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


class Held:
    """Reviews that wait for their turn or have it, until they are let go."""

    def __init__(self, **limits) -> None:
        self.turns = LargeReviews(Limits(**limits))
        self.begun: list[str] = []
        self.rejected: list[str] = []
        self.let_go = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def come(self, *names: str, size: int = 10) -> None:
        """Reviews by name; the user is the first letter."""
        for name in names:
            self._tasks[name] = asyncio.create_task(self._hold(name, size))
            await settled()

    async def leave(self, *names: str) -> None:
        """Their clients are gone."""
        for name in names:
            self._tasks.pop(name).cancel()
        await settled()

    async def end(self) -> None:
        self.let_go.set()
        await asyncio.gather(*self._tasks.values())

    async def _hold(self, name: str, size: int) -> None:
        try:
            async with self.turns.turn(name[0].encode(), size):
                self.begun.append(name)
                await self.let_go.wait()
        except OverloadedError:
            self.rejected.append(name)


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("come", "order", "because"),
    [
        (["a1", "a2", "a3"], ["a1", "a2", "a3"], "a user's reviews keep their order"),
        (["a1", "b1", "c1"], ["a1", "b1", "c1"], "so do users"),
        (["a1", "a2", "a3", "b1"], ["a1", "a2", "b1", "a3"], "b waits for one of a, not for all"),
        (["a1", "a2", "a3", "b1", "b2", "c1"], ["a1", "a2", "b1", "c1", "a3", "b2"], "in turns"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_one_is_judged_at_a_time_and_users_take_turns(come, order, because):
    held = Held()
    await held.come(*come)
    assert held.begun == come[:1]
    await held.end()
    assert held.begun == order, because


@pytest.mark.parametrize(
    ("limits", "because"),
    [
        ({"large_reviews": 2}, "two are there already"),
        ({"large_bytes": 29}, "the third has no room"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_over_the_bounds_the_client_is_asked_to_come_again(limits, because):
    held = Held(**limits)
    await held.come("a1", "a2", "a3", "b1")
    assert held.rejected == ["a3", "b1"], because
    await held.end()
    await held.come("c1", "c2")
    assert held.begun == ["a1", "a2", "c1", "c2"], "what was taken is given back"


async def test_who_has_most_that_waits_makes_room_for_others():
    held = Held(large_reviews=4)
    await held.come("a1", "a2", "a3", "a4", "a5", "b1", "c1")
    assert held.rejected == ["a5", "a4", "a3"], "of a, and first what came last"
    await held.come("d1")
    assert held.rejected == ["a5", "a4", "a3", "d1"], "nobody has more that wait than d would"
    await held.end()
    assert held.begun == ["a1", "a2", "b1", "c1"]


async def test_who_has_gone_keeps_nobody_waiting():
    held = Held(large_reviews=3)
    await held.come("a1", "b1", "c1")
    await held.leave("b1")
    await held.come("d1")
    await held.leave("a1")
    assert held.begun == ["a1", "c1"]
    await held.end()
    assert (held.begun, held.rejected) == (["a1", "c1", "d1"], [])


async def test_who_goes_in_the_moment_of_his_turn_passes_it_on():
    held = Held()
    await held.come("a1", "b1", "c1")
    held._tasks["a1"].cancel()
    held._tasks["b1"].cancel()
    await settled()
    assert held.begun == ["a1", "c1"]
    del held._tasks["a1"], held._tasks["b1"]
    await held.end()


@pytest.mark.parametrize(
    ("body", "is_it", "because"),
    [
        (b"x" * LARGE_BYTES, False, "one text of 512 KiB"),
        (b"x" * (LARGE_BYTES + 1), True, "more bytes"),
        (b"1,.......... " * LARGE_VALUES, False, "2,000 values"),
        (b"1,.......... " * (LARGE_VALUES + 1), True, "2,001 values"),
        (b"[..........] " * (LARGE_VALUES + 1), True, "lists are values, too"),
        (b'{"a":........' * (LARGE_VALUES + 1), True, "objects in objects have no comma"),
        (b"1," * LARGE_VALUES * 2, False, "within 16 KiB nothing takes long"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_review_is_large_by_its_bytes_or_by_its_values(body, is_it, because):
    assert is_large(body, Limits()) is is_it, because


@pytest.mark.parametrize(
    ("change", "user", "because"),
    [
        ({}, "someone", "as the API server sends it"),
        ({"userInfo": {"username": 'a"b\\'}}, 'a"b\\', "a name with a quote and a backslash"),
        ({"name": '"userInfo":{"username":"x"'}, "someone", "a name that looks like the field"),
        ({"userInfo": {"groups": []}}, "", "no name"),
        ({"name": "n" * 20_000}, "", "too far from the beginning"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_turns_are_those_of_the_user_who_writes(change, user, because):
    asked = make_review(new={}, old={})
    asked["request"] |= change
    for separators in ((",", ":"), (", ", ": ")):
        found = user_of(json.dumps(asked, separators=separators).encode())
        assert found == json.dumps(user)[1:-1].encode(), because
