"""One loop: gated by the lead, with growing pauses, logged once an episode, and counted."""

import asyncio
import logging
from collections.abc import Callable

import aiohttp
import pytest

from tests.unit.cluster.objects import Leads
from tests.waiting import patiently
from webhook.cluster.reconcile import LONGEST_SECONDS, Reconciler
from webhook.cluster.rest import RefusedError
from webhook.tasks.supervisor import Supervisor
from webhook.telemetry.logs import LOGGER


class Steps:
    """Takes steps that are given, and then returns an hour for ever."""

    def __init__(self, *steps: float | Exception) -> None:
        self.steps = list(steps)
        self.taken = 0

    async def __call__(self) -> float:
        self.taken += 1
        step = self.steps.pop(0) if self.steps else 3600.0
        if isinstance(step, Exception):
            raise step
        return step


async def until(done: Callable[[], bool]) -> None:
    async with patiently():
        while not done():
            await asyncio.sleep(0.001)


async def test_pauses_grow_with_jitter_until_a_step_succeeds(caplog):
    caplog.set_level(logging.ERROR, LOGGER.name)
    trouble = [RefusedError(500, "no"), TimeoutError(), aiohttp.ClientError("lost")]
    steps = Steps(*trouble, *[OSError()] * 9, 7.0, RefusedError(403, "again"))
    loop = Reconciler("work", steps, jitter=lambda: 1.0)
    pauses = [await loop.take_step() for _ in range(14)]
    assert pauses[:4] == [1.5, 3.0, 6.0, 12.0]
    assert pauses[11:] == [1.5 * LONGEST_SECONDS, 7.0, 1.5]
    told = [(one.message, one.fields["reason"]) for one in caplog.records]
    assert told == [("work failed", "no (500)"), ("work failed", "again (403)")]


async def test_a_conflict_is_no_trouble_and_tried_again_soon(caplog):
    loop = Reconciler("work", Steps(*[RefusedError(409, "written")] * 9), jitter=lambda: 0.0)
    assert [await loop.take_step() for _ in range(9)] == [1.0] * 9
    assert not loop.is_failing
    assert not caplog.records


async def test_who_does_not_lead_takes_no_step_and_does_not_fail():
    leads = Leads(is_leader=False)
    steps = Steps(OSError())
    loop = Reconciler("work", steps, leads)
    supervisor = Supervisor()
    async with loop.running(supervisor):
        await asyncio.sleep(0.05)
        assert not steps.taken
        leads.is_leader = True
        loop.wake()
        await until(lambda: loop.is_failing)
        leads.is_leader = False
        assert not loop.is_failing
    assert dict(supervisor._counts()) == {("work",): 1}


async def test_it_is_woken_and_what_comes_during_a_step_is_seen_by_the_next():
    steps = Steps()
    loop = Reconciler("work", steps)
    async with loop.running(Supervisor()):
        await until(lambda: steps.taken == 1)
        loop.wake()
        await until(lambda: steps.taken == 2)


async def test_any_other_error_is_the_supervisors():
    with pytest.raises(KeyError):
        await Reconciler("work", Steps(KeyError("a"))).take_step()
    loop = Reconciler("work", Steps(KeyError("a")), errors=(KeyError,))
    assert await loop.take_step() >= 1
