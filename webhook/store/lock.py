"""Leadership by a key of the shared store, where there is no cluster to ask.

The key holds the leader's token and expires unless it is renewed. While the store is lost nobody
can know who leads: then everybody does, for what is told twice can be told apart and what nobody
tells is lost (Alertmanager knows an alert by its labels, which are the same from every replica).
"""

import time
from collections.abc import Callable
from typing import Final, Protocol

from webhook.store.circuit import Answer, LostError
from webhook.store.scripts import Command

LOCK_SECONDS: Final = 10.0
LEAD_SECONDS: Final = 7.0
_NEVER: Final = float("-inf")

_TAKE: Final = """\
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""
_GIVE_BACK: Final = """\
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
"""


class Store(Protocol):
    """What a Circuit does."""

    async def ask(self, operation: str, command: Command) -> Answer:
        """The answer, in time; raises LostError."""


class StoreLock:
    """A Candidate."""

    def __init__(
        self, store: Store, prefix: str, token: bytes, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`token` is this process's alone."""
        self._store: Final = store
        self._key: Final = f"{prefix}leader"
        self._token: Final = token
        self._clock: Final = clock
        self._renewed = _NEVER
        self._answered = clock()
        self._followed = _NEVER

    @property
    def is_leader(self) -> bool:
        """Renewed lately, or left alone by the store for longer than any lock lasts."""
        now = self._clock()
        return now < self._renewed + LEAD_SECONDS or now >= self._answered + LOCK_SECONDS

    @property
    def vacant_since(self) -> float:
        """When another one was last known to hold the lock."""
        return self._followed

    async def tick(self) -> None:
        """Take or renew the lock if it is free or ours. Never raises."""
        asked = self._clock()
        try:
            taken = await self._store.ask(
                "lead", ("EVAL", _TAKE, 1, self._key, self._token, int(LOCK_SECONDS * 1000))
            )
        except LostError:
            return
        self._answered = asked
        if taken:
            self._renewed = asked
        else:
            self._renewed, self._followed = _NEVER, asked

    async def release(self) -> None:
        """Give the lock back, if it is held. Never raises."""
        if self._renewed == _NEVER:
            return
        self._renewed = _NEVER
        try:
            await self._store.ask("lead", ("EVAL", _GIVE_BACK, 1, self._key, self._token))
        except LostError:
            return
