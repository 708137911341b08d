"""Closed loop: as fast as the answers come. Open loop: at moments fixed before, come what may."""

import random
import select
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

from tools.bench.connection import Connection, Response
from tools.bench.template import MOST_OBJECTS, Filled, Template

Answered = Callable[[Filled, Response, float], None]
"""Called for every answer, with the seconds since its request was due."""

_clock: Final = time.perf_counter
_GIVE_UP_SECONDS: Final = 10.0


class UnansweredError(Exception):
    """A server left requests without an answer."""


class Supply(Protocol):
    """Where the requests come from."""

    def next(self, connection: Connection, /) -> Filled:
        """The next request for a connection that has its last answer."""


class Requests:
    """An endless supply: the templates in turn, each time round about other objects.

    A pod that lived its recorded life again and again would be a loop. With `objects`, every
    request is about the next of so many objects.
    """

    def __init__(self, templates: Sequence[Template], objects: int = 0) -> None:
        self._templates: Final = templates
        self._objects: Final = objects
        self.count = 0

    def next(self, _: Connection) -> Filled:
        """A request that was never sent."""
        self.count += 1
        around, position = divmod(self.count, len(self._templates))
        number = self.count % self._objects if self._objects else around % MOST_OBJECTS
        return self._templates[position].fill(self.count, number)


def closed_loop(
    connections: Sequence[Connection],
    requests: Supply,
    answered: Answered,
    *,
    seconds: float,
    limit: int,
) -> int:
    """Ask anew on every connection once it has answered; returns how many were asked."""
    end = _clock() + seconds
    asked = 0
    for connection in connections[:limit]:
        connection.send(requests.next(connection), _clock())
        asked += 1
    waiting = {connection.fileno(): connection for connection in connections[:limit]}
    while waiting:
        for connection, response in _answers(waiting, _GIVE_UP_SECONDS):
            now = _clock()
            assert connection.request is not None
            answered(connection.request, response, now - connection.due)
            if now < end and asked < limit:
                connection.send(requests.next(connection), now)
                asked += 1
            else:
                del waiting[connection.fileno()]
    return asked


def open_loop(
    connections: Sequence[Connection],
    requests: Supply,
    answered: Answered,
    *,
    rate: float,
    limit: int,
) -> None:
    """Ask `limit` times at random moments, `rate` a second on average, the same in every run.

    A request that finds every connection busy waits, and its latency counts from the moment it
    was due: what a slow answer did to those behind it is not left out (coordinated omission).
    """
    free = deque(connections)
    waiting: dict[int, Connection] = {}
    moments = _moments(_clock(), rate, limit)
    due: float | None = next(moments)
    while due is not None or waiting:
        while due is not None and free and due <= _clock():
            connection = free.popleft()
            connection.send(requests.next(connection), due)
            waiting[connection.fileno()] = connection
            due = next(moments, None)
        wait = _GIVE_UP_SECONDS if due is None or not free else max(0.0, due - _clock())
        for connection, response in _answers(waiting, wait, give_up=due is None or not free):
            assert connection.request is not None
            answered(connection.request, response, _clock() - connection.due)
            del waiting[connection.fileno()]
            free.append(connection)


def _moments(start: float, rate: float, count: int) -> Iterator[float]:
    """Arrivals that know nothing of each other, as users do not: exponential gaps."""
    chance = random.Random(5067)
    at = start
    for _ in range(count):
        at += chance.expovariate(rate)
        yield at


def _answers(
    waiting: dict[int, Connection], seconds: float, *, give_up: bool = True
) -> list[tuple[Connection, Response]]:
    """The answers that have come; waits for one at most `seconds`."""
    # select(2) counts in microseconds; epoll_wait(2) would be late by up to a millisecond.
    readable, _, _ = select.select(list(waiting), (), (), seconds)
    if not readable and waiting and give_up:
        raise UnansweredError(f"no answer within {seconds:g} s")
    found = []
    for number in readable:
        connection = waiting[number]
        response = connection.receive()
        if response is not None:
            found.append((connection, response))
    return found
