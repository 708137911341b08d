"""Asks a shared store while it answers in time, and does not ask it while it does not.

    lost ──a probe succeeds──► up ──a command fails or is late──► lost, and probed again at once

While the store is lost, nothing is sent and every question fails at once. So a write waits for a
failing store once, for ANSWER_SECONDS at most. A loss that two probes bring back is not reported.

valkey-py has no circuit breaker: its Retry repeats a command, which makes a late answer later.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from typing import Any, Final, NamedTuple, Protocol

from webhook.telemetry.logs import LOGGER

ANSWER_SECONDS: Final = 0.02
"""The longest that an answer to the API server waits for the store."""
_SHORTEST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 1.0
MOST_UNANSWERED: Final = 5_000
"""Commands without a reply; further ones are dropped and counted."""
_HEARTBEAT_SECONDS: Final = 1.0
_PROBES: Final = 3
_SUBSCRIBE_SECONDS: Final = 1.0
_STALL_SECONDS: Final = 0.005
_LATE: Final = f"no answer within {ANSWER_SECONDS * 1000:g} ms"

Command = tuple[str | bytes | int, ...]
"""A command of the store, and its arguments."""

Answer = Any
"""bytes, int, None or a list of these; a StoreLostError where there was no reply."""


class StoreLostError(Exception):
    """The store cannot be used now; the message says why, in our own words."""


class Pipeline(Protocol):
    """A connection that takes commands without waiting for earlier replies.

    A command that fails ends it.
    """

    @property
    def ended(self) -> asyncio.Future[str]:
        """Done, with the reason, once it cannot be used any more."""

    def __len__(self) -> int:
        """Return the number of commands without a reply."""

    def send(self, command: Command, done: Callable[[Answer], None]) -> None:
        """Send a command soon; call `done` with the reply, or with a StoreLostError."""

    def end(self, reason: str) -> None:
        """Stop using it at once."""

    async def close(self) -> None:
        """Stop using it, and close the connection."""


class StoreAccess(NamedTuple):
    """How the store is reached.

    open       returns a new pipeline; raises StoreLostError
    subscribe  calls its first argument when subscribed, its second with each message; returns
               why it ended
    probe      a command that succeeds only where every other command may succeed
    """

    open: Callable[[], Awaitable[Pipeline]]
    subscribe: Callable[[Callable[[], None], Callable[[bytes], None]], Awaitable[str]]
    probe: Command


class CacheOwner(Protocol):
    """Keeps copies of values of the store; other replicas say when a copy is out of date."""

    def invalidate(self, message: bytes) -> None:
        """Forget the copy that one message of the channel names."""

    def invalidate_all(self) -> None:
        """Forget every copy: messages may have been missed."""


class StoreState(NamedTuple):
    """Whether the store is asked, and why it is not."""

    up: bool
    reason: str


class _Pace(Enum):
    IN_TIME = auto()
    LATE = auto()
    UNKNOWN = auto()
    """The answer was late, but this process itself was held up as well."""


class CircuitBreaker:
    """Asks the store while it answers in time. `run` it in a task.

    `ask` waits for ANSWER_SECONDS at most, `publish` never waits.
    """

    def __init__(self, access: StoreAccess, on_change: Callable[[StoreState], None]) -> None:
        """`on_change` is called when the store is lost, and when it is back."""
        self._access: Final = access
        self._on_change: Final = on_change
        self._pipeline: Pipeline | None = None
        self._reported: StoreState | None = None
        self.requests: Final[Counter[tuple[str, str]]] = Counter()
        """Commands by operation and result."""

    @property
    def up(self) -> bool:
        """Whether the store is asked now."""
        return self._pipeline is not None

    def publish(self, operation: str, command: Command) -> None:
        """Send a command for which no answer waits. Never raises."""
        pipeline = self._pipeline
        if pipeline is None or len(pipeline) >= MOST_UNANSWERED:
            self.requests[operation, "dropped"] += 1
            return

        def done(answer: Answer) -> None:
            is_lost = isinstance(answer, StoreLostError)
            self.requests[operation, "lost" if is_lost else "ok"] += 1

        pipeline.send(command, done)

    async def ask(self, operation: str, command: Command) -> Answer:
        """Return the reply to a command. Raises StoreLostError, after ANSWER_SECONDS at most."""
        pipeline = self._pipeline
        if pipeline is None or len(pipeline) >= MOST_UNANSWERED:
            self.requests[operation, "skipped"] += 1
            raise StoreLostError("not asked")
        deadline = time.monotonic() + ANSWER_SECONDS
        try:
            answer = await answer_of(pipeline, command, ANSWER_SECONDS)
        except StoreLostError:
            self.requests[operation, "lost"] += 1
            raise
        except TimeoutError:
            self.requests[operation, "timeout"] += 1
            if not _was_held_up(deadline):
                pipeline.end(_LATE)
            raise StoreLostError(_LATE) from None
        self.requests[operation, "ok"] += 1
        return answer

    async def run(self, cache: CacheOwner) -> None:
        """Keep the store connected, for ever."""
        pause = 0.0
        while True:
            reason, seconds = await self._use_one_connection(cache)
            has_lasted = seconds > _LONGEST_PAUSE
            pause = 0.0 if has_lasted else min(max(2 * pause, _SHORTEST_PAUSE), _LONGEST_PAUSE)
            if pause > _SHORTEST_PAUSE:
                self._report(StoreState(up=False, reason=reason))
            await asyncio.sleep(pause)

    async def _use_one_connection(self, cache: CacheOwner) -> tuple[str, float]:
        """Use one connection until it ends; return why it ended, and its seconds of use."""
        try:
            pipeline = await self._access.open()
        except StoreLostError as error:
            return str(error), 0.0
        subscribed = asyncio.Event()
        subscription = asyncio.create_task(self._subscribe(pipeline, subscribed.set, cache))
        began = None
        try:
            await self._check(pipeline, subscribed)
            cache.invalidate_all()
            self._pipeline, began = pipeline, time.monotonic()
            self._report(StoreState(up=True, reason=""))
            await self._hold(pipeline)
        except StoreLostError as error:
            pipeline.end(str(error))
        finally:
            self._pipeline = None
            subscription.cancel()
            await asyncio.gather(subscription, pipeline.close(), return_exceptions=True)
        return pipeline.ended.result(), 0.0 if began is None else time.monotonic() - began

    async def _subscribe(
        self, pipeline: Pipeline, on_open: Callable[[], None], cache: CacheOwner
    ) -> None:
        # Without messages, copies may be wrong: when the subscription ends, the pipeline ends too.
        pipeline.end(await self._access.subscribe(on_open, cache.invalidate))

    async def _check(self, pipeline: Pipeline, subscribed: asyncio.Event) -> None:
        """Raise StoreLostError unless messages arrive and commands are answered in time."""
        waiting = asyncio.create_task(subscribed.wait())
        await asyncio.wait(
            (waiting, pipeline.ended),
            timeout=_SUBSCRIBE_SECONDS,
            return_when=asyncio.FIRST_COMPLETED,
        )
        waiting.cancel()
        if pipeline.ended.done():
            raise StoreLostError(pipeline.ended.result())
        if not subscribed.is_set():
            raise StoreLostError("no answer in time")
        if await self._pace(pipeline) is not _Pace.IN_TIME:
            raise StoreLostError(_LATE)

    async def _hold(self, pipeline: Pipeline) -> None:
        """Return when the connection has ended. Raises StoreLostError when it becomes slow."""
        while not pipeline.ended.done():
            await asyncio.wait((pipeline.ended,), timeout=_HEARTBEAT_SECONDS)
            if await self._pace(pipeline) is _Pace.LATE:
                raise StoreLostError(_LATE)

    async def _pace(self, pipeline: Pipeline) -> _Pace:
        """Probe a few times, and return the best result. Raises StoreLostError."""
        found = _Pace.LATE
        for _ in range(_PROBES):
            deadline = time.monotonic() + ANSWER_SECONDS
            try:
                await answer_of(pipeline, self._access.probe, ANSWER_SECONDS)
            except TimeoutError:
                found = _Pace.UNKNOWN if _was_held_up(deadline) else found
            else:
                return _Pace.IN_TIME
        return found

    def _report(self, state: StoreState) -> None:
        before, self._reported = self._reported, state
        if before == state:
            return
        if not state.up:
            # Another reason is logged too: a restarted store may now refuse the password.
            facts = {"reason": state.reason, "effect": "each replica uses its own memory"}
            LOGGER.warning("store lost", extra={"facts": facts})
        else:
            LOGGER.info("store connected" if before is None else "store is back")
        if state.up != (before is None or before.up):
            self._on_change(state)


def _was_held_up(deadline: float) -> bool:
    """Whether this process noticed the deadline late: the answer may be there, still unread."""
    return time.monotonic() - deadline >= _STALL_SECONDS


async def answer_of(pipeline: Pipeline, command: Command, seconds: float) -> Answer:
    """Send one command and return its answer. Raises StoreLostError or TimeoutError."""
    answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    def done(answer: Answer) -> None:
        if not answered.done():
            answered.set_result(answer)

    pipeline.send(command, done)
    async with asyncio.timeout(seconds):
        answer = await answered
    if isinstance(answer, StoreLostError):
        raise answer
    return answer
