"""One wait: until every object has reached what is waited for, one never will, or time is up."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from http import HTTPStatus
from typing import Final

from webhook.cluster.connection import connected
from webhook.cluster.discovery import discover
from webhook.cluster.rest import RefusedError, Rest
from webhook.objects.served import Served, UnknownTargetError
from webhook.status.targets import RequestedTarget, WatchTarget, resolve_targets
from webhook.status.wait_goal import Goal, WaitProgress, WaitState, WaitTracker
from webhook.verbs.following import Following, Tell, following
from webhook.verbs.remembering import memories

_TICK: Final = 1.0
"""Seconds after which time alone may have changed the answer; also between two lines of reasons."""
_MOST_TOLD: Final = 5


class Ending(IntEnum):
    """How a wait ends: the exit code."""

    REACHED = 0
    FAILED = 1
    TIMED_OUT = 2


@dataclass(frozen=True, slots=True)
class WaitOptions:
    """What the flags say."""

    kubeconfig: str
    context: str | None
    asked: tuple[RequestedTarget, ...]
    namespace: str
    selector: str
    server: str | None
    goals: tuple[Goal, ...]
    seconds: float

    @property
    def goal(self) -> str:
        """As it was asked for."""
        return " and ".join(goal.text for goal in self.goals)


async def wait(options: WaitOptions, tell: Tell) -> Ending:
    """Wait, and tell why: a line when the reason changes, and one for the end.

    Raises NoClusterError, UnknownTargetError, RefusedError, NoServerError or one of UNREACHED.
    """
    async with connected(options.kubeconfig, options.context) as api:
        return await _Wait(Rest(api), options, tell).run()


class _Wait:
    def __init__(self, rest: Rest, options: WaitOptions, tell: Tell) -> None:
        self._rest: Final = rest
        self._options: Final = options
        self._tell: Final = tell
        self._end: Final = time.monotonic() + options.seconds

    async def run(self) -> Ending:
        resolved = await self._resolve()
        if resolved is None:
            return self._time_out("")
        kinds, found = resolved
        server, within = self._options.server, self._options.namespace
        known = await memories(server, within) if server else {}
        async with following(self._rest, kinds, found, self._tell, known) as objects:
            return await self._follow(objects, WaitTracker(found, self._options.goals))

    async def _resolve(self) -> tuple[list[Served], list[WatchTarget]] | None:
        """The kinds that are served and what is wanted of them; None when time is up before.

        A custom resource may be waited for before its definition is there; what may not be read
        is not waited for.
        """
        options = self._options
        news = _News(self._tell)
        while True:
            try:
                kinds = await discover(self._rest)
                found = resolve_targets(options.asked, kinds, options.namespace, options.selector)
                for one in found:
                    await self._rest.get(
                        one.served.path(one.namespace), limit="1", **one.list_parameters
                    )
            except UnknownTargetError as error:
                news.tell(f"waiting: {error}")
            except RefusedError as error:
                if not error.is_passing and error.status != HTTPStatus.NOT_FOUND:
                    raise
                news.tell(f"waiting: {error}")
            else:
                return kinds, found
            if self._remaining <= 0:
                return None
            await asyncio.sleep(min(_TICK / 2, self._remaining))

    async def _follow(self, objects: Following, tracker: WaitTracker) -> Ending:
        news = _News(self._tell)
        waiting: list[WaitProgress] = []
        while self._remaining > 0:
            sight = await objects.sight(min(_TICK, self._remaining))
            if sight is None:
                continue
            every = tracker.update(sight.roots, sight.there)
            failed = [one for one in every if one.state is WaitState.FAILED]
            waiting = [one for one in every if one.state is WaitState.WAITING]
            if failed:
                self._tell(f"failed: {_listed(failed)}")
                return Ending.FAILED
            if not waiting:
                self._tell(f"reached {self._options.goal}: {_listed(every)}")
                return Ending.REACHED
            news.tell(f"waiting for {self._options.goal}: {_first(waiting)}")
        return self._time_out(_listed(waiting))

    def _time_out(self, lacking: str) -> Ending:
        text = f"timed out after {self._options.seconds:g} s"
        self._tell(f"{text}: {lacking}" if lacking else text)
        return Ending.TIMED_OUT

    @property
    def _remaining(self) -> float:
        return self._end - time.monotonic()


class _News:
    """Tells what is new, but no more than a line a second."""

    def __init__(self, tell: Tell) -> None:
        self._tell: Final = tell
        self._told = ""
        self._at = -_TICK

    def tell(self, text: str) -> None:
        now = time.monotonic()
        if text != self._told and now - self._at >= _TICK:
            self._tell(text)
            self._told, self._at = text, now


def _first(waiting: Sequence[WaitProgress]) -> str:
    more = f" (and {len(waiting) - 1} more objects)" if len(waiting) > 1 else ""
    return f"{waiting[0]}{more}"


def _listed(every: Sequence[WaitProgress]) -> str:
    texts = [str(one) for one in every[:_MOST_TOLD]]
    more = len(every) - _MOST_TOLD
    return "; ".join([*texts, f"and {more} more"] if more > 0 else texts)
