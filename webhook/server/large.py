"""Large reviews: judged in a thread, one after the other, while the event loop answers the rest.

A review is large when it has many bytes or many values: a list of 2,500 containers in 300 KiB takes
a hundred times as long as one long text. The users take turns, so that who sends many large reviews
waits for himself and not others for him.

A thread has its review to itself, and what never changes. `Dependencies` also remember things
between reviews: each access to these runs on the event loop, so that they need not know of threads.
CPython runs one thread at a time: this makes nothing faster, it lets small reviews in between.
"""

import asyncio
import re
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final, ParamSpec, TypeVar

from genguard.admission.review import JoinKey
from genguard.objects.fields import count_values
from genguard.objects.intended import Intended
from genguard.review import Dependencies, Rounds
from genguard.rules.restore_intent import Intents
from webhook.server.body import OverloadedError
from webhook.server.limits import Limits
from webhook.server.overload import Rejected

P = ParamSpec("P")
T = TypeVar("T")


_FEW_BYTES: Final = 16 * 1024
"""A body of so many bytes is not counted: whatever it has, it is judged within 3 ms."""
_USER: Final = re.compile(rb'"userInfo"\s*:\s*\{\s*"username"\s*:\s*"((?:[^"\\]|\\.)*+)"')
_USER_WITHIN: Final = 16 * 1024


def is_large(body: bytes, limits: Limits) -> bool:
    """Whether a body takes so long that the event loop must not judge it."""
    if len(body) <= _FEW_BYTES:
        return False
    return len(body) > limits.large_from or count_values(body) > limits.large_values


def user_of(body: bytes) -> bytes:
    """Return who asks, as it is written; b"" where it is not found near the beginning.

    The API server writes userInfo before the objects (k8s.io/api admission/v1 types.go:
    AdmissionRequest), and a quote within a name with a backslash. Turns depend on it, nothing else.
    """
    found = _USER.search(body, 0, _USER_WITHIN)
    return b"" if found is None else found[1]


class _Turn:
    """A body that waits to be judged, or is judged: whose it is, and its bytes."""

    __slots__ = ("granted", "size", "user")

    def __init__(self, user: bytes, size: int) -> None:
        self.user: Final = user
        self.size: Final = size
        self.granted: Final[asyncio.Future[None]] = asyncio.get_running_loop().create_future()


class LargeReviews:
    """Lets one large review at a time be judged; those that wait are bounded in count and bytes.

    Of the users whose reviews wait each has one judged in turn. Where there is no room for one
    more, the latest review of the user with the most of them is rejected.
    """

    def __init__(self, limits: Limits) -> None:
        self._free_places = limits.large_reviews
        self._free_bytes = limits.large_bytes
        self._judged: _Turn | None = None
        self._waiting: Final[OrderedDict[bytes, deque[_Turn]]] = OrderedDict()
        """By user; the next user first."""

    @asynccontextmanager
    async def turn(self, user: bytes, size: int) -> AsyncIterator[None]:
        """Wait for the turn of a user's body of `size` bytes. Raises OverloadedError."""
        while not self._free_places or size > self._free_bytes:
            self._reject_another(user)
        turn = _Turn(user, size)
        self._free_places -= 1
        self._free_bytes -= size
        self._waiting.setdefault(user, deque()).append(turn)
        self._grant()
        try:
            await turn.granted
            yield
        finally:
            if turn is self._judged:
                self._judged = None
                self._give_back(turn)
                self._grant()
            elif turn in self._waiting.get(user, ()):  # its client has gone
                self._take(turn)

    def _grant(self) -> None:
        if self._judged is not None or not self._waiting:
            return
        user, turns = next(iter(self._waiting.items()))
        turn = self._judged = turns.popleft()
        if turns:
            self._waiting.move_to_end(user)
        else:
            del self._waiting[user]
        if not turn.granted.done():
            turn.granted.set_result(None)

    def _reject_another(self, user: bytes) -> None:
        """Make room for a user by rejecting a review of another one, who has more that wait."""
        turns = max(self._waiting.values(), key=len, default=None)
        if turns is None or len(turns) <= len(self._waiting.get(user, ())) + 1:
            raise OverloadedError(Rejected.LARGE)
        rejected = turns[-1]
        self._take(rejected)
        if not rejected.granted.done():
            rejected.granted.set_exception(OverloadedError(Rejected.LARGE))

    def _take(self, turn: _Turn) -> None:
        """Let a review wait no longer."""
        turns = self._waiting[turn.user]
        turns.remove(turn)
        if not turns:
            del self._waiting[turn.user]
        self._give_back(turn)

    def _give_back(self, turn: _Turn) -> None:
        self._free_places += 1
        self._free_bytes += turn.size


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
