"""When a review is rejected, what is logged of it, and how late the event loop is."""

import asyncio
import time

import pytest

from tests.waiting import until
from webhook.server.overload import (
    LoopLag,
    Overload,
    Rejected,
)

TIMEOUT = 10.0
LONG, MIDDLING, SHORT = 6.0, 3.0, 1.0


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def overload(clock: Clock) -> Overload:
    return Overload(5.0, clock)


@pytest.mark.parametrize(("waited", "late"), [(LONG, True), (MIDDLING, False), (SHORT, False)])
def test_before_an_episode_only_what_can_no_longer_be_in_time_is_rejected(overload, waited, late):
    assert overload.is_too_late(waited, TIMEOUT) is late


@pytest.mark.parametrize(("waited", "late"), [(LONG, True), (MIDDLING, True), (SHORT, False)])
def test_in_an_episode_less_waiting_is_allowed(overload, waited, late):
    overload.reject(Rejected.LATE)
    assert overload.is_too_late(waited, TIMEOUT) is late


def test_each_is_counted_by_what_there_was_too_much_of(overload):
    assert overload.rejected == {Rejected.LATE: 0, Rejected.LARGE: 0, Rejected.READING: 0}
    for reason in (Rejected.LATE, Rejected.READING, Rejected.LATE):
        overload.reject(reason)
    assert overload.rejected == {Rejected.LATE: 2, Rejected.LARGE: 0, Rejected.READING: 1}


def test_the_log_has_one_line_when_it_begins_and_one_when_nothing_was_rejected_for_a_while(
    overload, clock, caplog
):
    overload.end_if_quiet()
    for clock.now in (1.0, 1.5, 3.0, 3.25):
        overload.reject(Rejected.LATE)
        overload.end_if_quiet()
    clock.now = 8.2
    overload.end_if_quiet()
    assert overload.is_too_late(MIDDLING, TIMEOUT)
    for clock.now in (9.0, 20.0):
        overload.end_if_quiet()
    assert not overload.is_too_late(MIDDLING, TIMEOUT)
    clock.now = 30.0
    overload.reject(Rejected.LARGE)
    assert [(record.message, record.facts) for record in caplog.records] == [
        ("overloaded: reviews are shed", {"reason": "late"}),
        ("no longer overloaded", {"refused": 4, "seconds": 2.25}),
        ("overloaded: reviews are shed", {"reason": "large"}),
    ]


async def test_a_loop_that_is_held_is_late_and_that_is_remembered():
    lag = LoopLag()
    await asyncio.sleep(0.1)
    time.sleep(0.4)
    await asyncio.sleep(0.2)
    assert lag.longest() >= 0.3
    lag.stop()


async def test_what_is_read_after_a_pause_may_have_come_at_its_beginning():
    lag = LoopLag()
    await until(lambda: time.monotonic() - lag.before_last < 0.2, "in time it is hardly ago")
    begun = time.monotonic()
    time.sleep(0.4)
    assert lag.before_last <= begun
    while lag.longest() < 0.3:  # a look that comes before what is read
        await asyncio.sleep(0)
    assert lag.before_last <= begun + 0.1
    lag.stop()
