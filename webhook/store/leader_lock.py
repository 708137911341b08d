"""Elects a leader by a key of the shared store, where there is no cluster to ask.

The key holds the leader's token and expires unless it is renewed. While the store is lost nobody
can know who leads. Then every replica leads: an alert sent twice is recognized by its labels, an
alert that nobody sends is lost.

Not valkey-py's Lock: it extends and releases by EVALSHA and SCRIPT LOAD, which the documented ACL
of genguard's user does not allow, and it cannot say when another replica held the lock last.
"""

import time
from collections.abc import Callable
from typing import Final, Protocol

from webhook.store.circuit_breaker import Answer, Command, StoreLostError

LOCK_SECONDS: Final = 10.0
LEAD_SECONDS: Final = 7.0
_NEVER: Final = float("-inf")

# What no replica has put there is of another type or length. It is replaced: it may never expire.
_TAKE: Final = """\
local holder = redis.pcall('GET', KEYS[1])
local is_replica = type(holder) == 'string' and #holder == #ARGV[1]
if is_replica and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""
_RELEASE: Final = """\
if redis.pcall('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
"""


class Store(Protocol):
    """What is used of a CircuitBreaker."""

    async def ask(self, operation: str, command: Command) -> Answer:
        """Return the answer, in time; raises StoreLostError."""


class LeaderLock:
    """The LeaderElection of replicas that share a store but no cluster."""

    def __init__(
        self, store: Store, prefix: str, token: bytes, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`token` is unique to this process; `clock` gives seconds."""
        self._store: Final = store
        self._key: Final = f"{prefix}leader"
        self._token: Final = token
        self._clock: Final = clock
        self._renewed = _NEVER
        self._answered = clock()
        self._followed = _NEVER

    @property
    def is_leader(self) -> bool:
        """Whether this replica renewed the lock lately, or the store is lost for LOCK_SECONDS."""
        now = self._clock()
        return now < self._renewed + LEAD_SECONDS or now >= self._answered + LOCK_SECONDS

    @property
    def vacant_since(self) -> float:
        """When another replica was last known to hold the lock, in monotonic seconds."""
        return self._followed

    async def tick(self) -> None:
        """Take the lock if it is free, renew it if it is ours. Never raises."""
        asked = self._clock()
        try:
            taken = await self._store.ask(
                "lead", ("EVAL", _TAKE, 1, self._key, self._token, int(LOCK_SECONDS * 1000))
            )
        except StoreLostError:
            return
        self._answered = asked
        if taken:
            self._renewed = asked
        else:
            self._renewed, self._followed = _NEVER, asked

    async def release(self) -> None:
        """Release the lock, if this replica holds it. Never raises."""
        if self._renewed == _NEVER:
            return
        self._renewed = _NEVER
        try:
            await self._store.ask("lead", ("EVAL", _RELEASE, 1, self._key, self._token))
        except StoreLostError:
            return
