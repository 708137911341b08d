"""Tasks that fail are counted, shown and started again; what cannot be handled is left out."""

import asyncio
import logging

import pytest

from webhook.tasks.supervisor import LONGEST_SECONDS, SHORTEST_SECONDS, WELL_SECONDS, Supervisor
from webhook.telemetry.metrics import Metrics


class Time:
    """A clock that moves by pauses alone, and the pauses that were made."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def supervisor(time: Time) -> Supervisor:
    return Supervisor(time.sleep, lambda: time.now)


def counted(supervisor: Supervisor) -> dict[tuple[str, ...], float]:
    metrics = Metrics(lambda group, resource: False)
    supervisor.measured(metrics)
    return {
        (*sample.labels.values(),): sample.value
        for family in metrics.registry.collect()
        if family.name in ("genguard_task_failures", "genguard_left_out")
        for sample in family.samples
    }


async def test_a_task_that_fails_is_logged_counted_and_started_again(supervisor, caplog):
    runs, works = [], asyncio.Event()

    async def run() -> None:
        runs.append(None)
        if len(runs) == 1:
            raise KeyError("secret")
        works.set()
        await asyncio.Event().wait()

    caplog.set_level(logging.ERROR, "genguard")
    async with supervisor.running({"watch pods": run}):
        assert counted(supervisor) == {("watch pods",): 0}, "a series before the first failure"
        await works.wait()
        assert counted(supervisor) == {("watch pods",): 1}
        (failing,) = supervisor.failing()
        assert str(failing) == "watch pods failed once with KeyError, and was started again"
    ((record),) = caplog.records
    assert (record.message, record.fields) == ("task failed", {"task": "watch pods"})
    assert not supervisor._tasks
    assert counted(supervisor) == {("watch pods",): 1}, "a counter never falls"


async def test_pauses_double_and_are_short_again_after_it_ran_well(supervisor, time):
    runs, over = [], asyncio.Event()

    async def run() -> None:
        runs.append(None)
        if len(runs) == 9:
            time.now += WELL_SECONDS
        if len(runs) == 11:
            over.set()
            await asyncio.Event().wait()
        raise RuntimeError

    async with supervisor.running({"a": run}):
        await over.wait()
    assert time.pauses == [1, 2, 4, 8, 16, 32, 60, 60, SHORTEST_SECONDS, 2]
    assert LONGEST_SECONDS < WELL_SECONDS, "what fails at each start never counts as well"


async def test_between_two_starts_it_is_down_and_says_so_at_once():
    paused, said = asyncio.Event(), []

    async def sleep(_: float) -> None:
        paused.set()
        await asyncio.Event().wait()

    async def run() -> None:
        raise RuntimeError

    supervisor = Supervisor(sleep)
    async with supervisor.running({"a": run}, on_failure=lambda: said.append("not current")):
        await paused.wait()
        assert str(*supervisor.failing()) == "a failed once with RuntimeError, and is down"
        assert said == ["not current"]


async def test_what_its_end_raises_is_counted_and_ends_nothing_else(supervisor):
    ended = []

    async def bad() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise RuntimeError

    async def good() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("good")

    async with supervisor.running({"bad": bad, "good": good}):
        await asyncio.sleep(0)
    assert ended == ["good"]
    assert counted(supervisor)["bad",] == 1


async def test_a_task_whose_own_work_was_cancelled_is_started_again(supervisor):
    runs, works = [], asyncio.Event()

    async def run() -> None:
        runs.append(None)
        if len(runs) > 1:
            works.set()
            await asyncio.Event().wait()
        cancelled = asyncio.get_running_loop().create_future()
        cancelled.cancel()
        await cancelled

    async with supervisor.running({"a": run}):
        await works.wait()
    assert len(runs) == 2


async def test_asked_to_end_a_task_finishes_what_it_does(supervisor):
    over, began, done = asyncio.Event(), asyncio.Event(), []

    async def run() -> None:
        began.set()
        await over.wait()
        await asyncio.sleep(0)
        done.append("saved")

    supervisor.start("saving", run)
    await began.wait()
    await supervisor.end(("saving",), ask=over.set)
    assert done == ["saved"]


async def test_a_task_that_is_down_does_not_delay_the_end():
    paused, over = asyncio.Event(), asyncio.Event()

    async def sleep(_: float) -> None:
        paused.set()
        await asyncio.Event().wait()

    async def run() -> None:
        raise RuntimeError

    supervisor = Supervisor(sleep)
    supervisor.start("saving", run)
    await paused.wait()
    await supervisor.end(("saving",), ask=over.set)
    assert not supervisor._tasks


def test_what_cannot_be_handled_is_left_out_and_the_next_item_is_handled(supervisor, caplog):
    handled = []
    for item in (1, 0, 2):
        with supervisor.guard("items"):
            handled.append(2 // item)
    assert handled == [2, 1]
    assert supervisor.left_out == {"items": 1}
    assert [one.message for one in caplog.records] == ["left out"]


async def test_a_guard_lets_the_end_of_a_task_through(supervisor):
    with pytest.raises(asyncio.CancelledError), supervisor.guard("items"):
        raise asyncio.CancelledError
    assert supervisor.left_out == {}
