"""The circuit breaker with a pipeline that does as the test says; only one test waits 20 ms."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.waiting import until
from webhook.store import circuit_breaker as module
from webhook.store.circuit_breaker import CircuitBreaker, StoreAccess, StoreLostError, StoreState

PROBE = ("PROBE",)
GET = ("GET", b"key")


class FakePipeline:
    """Answers PROBE always, anything else when `answers`; a command that is due fails it."""

    def __init__(self, *, answers: bool = True) -> None:
        self.answers = answers
        self.commands = []
        self.waiting = []
        self.ended = asyncio.get_running_loop().create_future()

    def __len__(self) -> int:
        return len(self.waiting)

    def send(self, command, done) -> None:
        self.commands.append(command)
        if self.ended.done():
            done(StoreLostError(self.ended.result()))
        elif command == PROBE or self.answers:
            done(b"value")
        else:
            self.waiting.append(done)

    def end(self, reason: str) -> None:
        if not self.ended.done():
            self.ended.set_result(reason)
            for done in self.waiting:
                done(StoreLostError(reason))

    async def close(self) -> None:
        self.end("closed")


class FakeStore:
    """Opens the pipelines it is given, one after the other; then none."""

    def __init__(self, *pipelines: FakePipeline) -> None:
        self.pipelines = list(pipelines)
        self.opened = 0
        self.gaps = 0
        self.states: list[StoreState] = []
        self.messages: list[bytes] = []
        self.circuit = CircuitBreaker(
            StoreAccess(self._open, self._subscribe, PROBE), self.states.append
        )

    async def _open(self) -> FakePipeline:
        self.opened += 1
        if not self.pipelines:
            raise StoreLostError("nobody there")
        return self.pipelines.pop(0)

    async def _subscribe(self, on_open, on_message) -> str:
        on_open()
        on_message(b"message")
        await asyncio.Event().wait()
        return ""

    def invalidate(self, message: bytes) -> None:
        self.messages.append(message)

    def invalidate_all(self) -> None:
        self.gaps += 1

    @asynccontextmanager
    async def running(self) -> AsyncIterator[CircuitBreaker]:
        task = asyncio.create_task(self.circuit.run(self))
        await until(lambda: self.opened)
        await _settle()
        try:
            yield self.circuit
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def _settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_while_it_is_up_commands_are_answered_and_messages_heard():
    store = FakeStore(FakePipeline())
    async with store.running() as circuit:
        assert circuit.up
        assert await circuit.ask("fetch", GET) == b"value"
        circuit.publish("put", GET)
    assert circuit.requests == {("fetch", "ok"): 1, ("put", "ok"): 1}
    assert (store.gaps, store.messages) == (1, [b"message"])
    assert store.states == [], "to be connected is no news"


async def test_a_late_answer_is_waited_for_once_and_then_nothing_is_asked(monkeypatch):
    monkeypatch.setattr(module, "_STALL_SECONDS", 60.0)  # however busy this machine is
    pipeline = FakePipeline(answers=False)
    store = FakeStore(pipeline)
    async with store.running() as circuit:
        with pytest.raises(StoreLostError, match="20 ms"):
            await circuit.ask("fetch", GET)
        await until(lambda: not circuit.up)
        sent = len(pipeline.commands)
        with pytest.raises(StoreLostError):
            await circuit.ask("fetch", GET)
        circuit.publish("put", GET)
    assert len(pipeline.commands) == sent
    assert circuit.requests == {
        ("fetch", "timeout"): 1,
        ("fetch", "skipped"): 1,
        ("put", "dropped"): 1,
    }


async def test_an_answer_that_is_late_because_of_this_process_is_not_held_against_the_store(
    monkeypatch,
):
    monkeypatch.setattr(module, "_STALL_SECONDS", 0.0)
    pipeline = FakePipeline(answers=False)
    async with FakeStore(pipeline).running() as circuit:
        with pytest.raises(StoreLostError):
            await circuit.ask("fetch", GET)
        assert circuit.up
        assert not pipeline.ended.done()


async def test_who_waits_is_let_go_when_the_line_ends():
    pipeline = FakePipeline(answers=False)
    store = FakeStore(pipeline)
    async with store.running() as circuit:
        circuit.publish("put", GET)
        asking = asyncio.create_task(circuit.ask("fetch", GET))
        await _settle()
        pipeline.end("cut off")
        with pytest.raises(StoreLostError, match="cut off"):
            await asking
    assert circuit.requests == {("fetch", "lost"): 1, ("put", "lost"): 1}


async def test_a_loss_that_a_second_line_makes_good_is_not_told(monkeypatch):
    monkeypatch.setattr(module, "_LONGEST_PAUSE", 0.0)
    pipelines = FakePipeline(), FakePipeline()
    store = FakeStore(*pipelines)
    async with store.running() as circuit:
        await asyncio.sleep(0.01)
        pipelines[0].end("cut off")
        await until(lambda: store.gaps == 2)
        assert circuit.up
    assert store.states == []


async def test_a_loss_is_told_once_with_its_reason_and_so_is_the_return(monkeypatch):
    monkeypatch.setattr(module, "_SHORTEST_PAUSE", 0.001)
    monkeypatch.setattr(module, "_LONGEST_PAUSE", 0.01)
    store = FakeStore()
    async with store.running() as circuit:
        await until(lambda: store.opened > 5)
        assert not circuit.up
        assert store.states == [StoreState(up=False, reason="nobody there")]
        store.pipelines.append(FakePipeline())
        await until(lambda: circuit.up)
        assert store.states[1:] == [StoreState(up=True, reason="")]


async def test_what_is_too_much_is_dropped_and_not_kept(monkeypatch):
    monkeypatch.setattr(module, "MOST_UNANSWERED", 3)
    store = FakeStore(FakePipeline(answers=False))
    async with store.running() as circuit:
        for _ in range(5):
            circuit.publish("put", GET)
        with pytest.raises(StoreLostError):
            await circuit.ask("fetch", GET)
        assert circuit.requests == {("put", "dropped"): 2, ("fetch", "skipped"): 1}
