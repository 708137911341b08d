"""Judging with the waits that it may need: large reviews, and what another replica knows."""

import time
from collections.abc import Awaitable, Callable
from typing import Final, ParamSpec, Protocol, TypeVar

from webhook.admission.join import JoinKey
from webhook.admission.review import Phase
from webhook.pipeline import Dependencies, Reply, awaited_intent, decode, judge
from webhook.server.large import Turns, for_thread
from webhook.server.limits import Limits
from webhook.threads import in_thread

P = ParamSpec("P")
T = TypeVar("T")


class Elsewhere(Protocol):
    """What other replicas know of the writes on their way. `now` as review() takes it."""

    def lacks(self, key: JoinKey, now: float) -> bool:
        """Whether it has to be fetched: it is not known here already."""

    async def fetch(self, key: JoinKey, now: float) -> None:
        """Put it where review() finds it. Never raises, and takes 20 ms at most."""


class Judging:
    """review() of webhook/pipeline.py, with the waits that a review may need."""

    def __init__(self, limits: Limits, elsewhere: Elsewhere | None) -> None:
        self._large_from: Final = limits.large_from
        self._turns: Final = Turns(limits)
        self._elsewhere: Final = elsewhere

    async def review(
        self, body: bytes, phase: Phase, deps: Dependencies, is_in_time: Callable[[], None]
    ) -> tuple[Reply, float]:
        """The reply, and the seconds that it took to judge: waits are not counted.

        `is_in_time` is called when a review has waited for its turn, and raises what this raises.
        Raises OverloadedError.
        """
        if len(body) <= self._large_from:
            return await self._review(body, phase, deps, _at_once)
        async with self._turns.turn(len(body)):
            is_in_time()
            return await self._review(body, phase, for_thread(deps), in_thread)

    async def _review(
        self, body: bytes, phase: Phase, deps: Dependencies, run: "_Run"
    ) -> tuple[Reply, float]:
        now, waited, elsewhere = time.monotonic(), 0.0, self._elsewhere
        request = await run(decode, body)
        if isinstance(request, Reply):
            return request, time.monotonic() - now
        key = None if elsewhere is None else await run(awaited_intent, request, phase, deps)
        if elsewhere is not None and key is not None and elsewhere.lacks(key, now):
            began = time.monotonic()
            await elsewhere.fetch(key, now)
            waited = time.monotonic() - began
        reply = await run(judge, request, phase, deps, now, at=time.time())
        return reply, time.monotonic() - now - waited


class _Run(Protocol):
    """Calls a function, here or in a thread."""

    def __call__(
        self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> Awaitable[T]: ...


async def _at_once(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    return function(*args, **kwargs)
