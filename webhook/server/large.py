"""Large reviews: judged in a thread, one after the other, while the event loop answers the rest.

A thread has its review to itself, and what never changes. `Dependencies` also remember things
between reviews: each access to these runs on the event loop, so that they need not know of threads.
CPython runs one thread at a time: this makes nothing faster, it lets small reviews in between.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final, ParamSpec, TypeVar

from webhook.admission.join import JoinKey
from webhook.objects.intended import Intended
from webhook.pipeline import Dependencies, Rounds
from webhook.rules.restore_intent import Intents
from webhook.server.body import OverloadedError
from webhook.server.limits import Limits
from webhook.server.overload import Rejected

P = ParamSpec("P")
T = TypeVar("T")


class LargeReviews:
    """Lets one large review at a time be judged; those that wait are bounded in count and bytes."""

    def __init__(self, limits: Limits) -> None:
        self._free_places = limits.large_reviews
        self._free_bytes = limits.large_bytes
        self._turn: Final = asyncio.Lock()

    @asynccontextmanager
    async def turn(self, size: int) -> AsyncIterator[None]:
        """Wait for the turn of a body of `size` bytes. Raises OverloadedError."""
        if not self._free_places or size > self._free_bytes:
            raise OverloadedError(Rejected.LARGE)
        self._free_places -= 1
        self._free_bytes -= size
        try:
            async with self._turn:
                yield
        finally:
            self._free_places += 1
            self._free_bytes += size


def for_thread(deps: Dependencies) -> Dependencies:
    """The same dependencies for use in a thread; called on the event loop that `deps` belong to."""
    loop = _Loop(asyncio.get_running_loop())
    return replace(
        deps,
        intents=_Intents(deps.intents, loop),
        rounds=_Rounds(deps.rounds, loop),
        about=lambda: loop.call(deps.about),
    )


class _Loop:
    """An event loop, for callers in other threads."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop: Final = loop

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function on the loop; return or raise what it does."""
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(function(*args, **kwargs))
            except Exception as error:  # noqa: BLE001 - it is raised where the call was made
                done.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return done.result()


class _Intents:
    def __init__(self, intents: Intents, loop: _Loop) -> None:
        self._intents: Final = intents
        self._loop: Final = loop

    def put(self, key: JoinKey, intended: Intended, now: float) -> None:
        self._loop.call(self._intents.put, key, intended, now)

    def get(self, key: JoinKey, now: float) -> Intended | None:
        return self._loop.call(self._intents.get, key, now)


class _Rounds:
    def __init__(self, rounds: Rounds, loop: _Loop) -> None:
        self._rounds: Final = rounds
        self._loop: Final = loop

    def put(self, key: JoinKey, annotations: Mapping[str, str], now: float) -> None:
        self._loop.call(self._rounds.put, key, annotations, now)

    def get(self, key: JoinKey, now: float) -> Mapping[str, str] | None:
        return self._loop.call(self._rounds.get, key, now)

    def forget(self, key: JoinKey) -> None:
        self._loop.call(self._rounds.forget, key)
