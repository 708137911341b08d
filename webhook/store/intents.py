"""What a requester asked for at /intent, for the replica that gets the write at /mutate.

In the store each intent is one key with a time to live. Its name is a digest: names of objects are
not in it. Its value is a sign, and then the intent: 0 until /mutate has asked for it, 1 afterwards,
when the next intent belongs to another write. Nothing after the sign: two different intents that
were both under way have cancelled each other, as in MemoryIntents.

Each replica also remembers what came in at itself. That is all it knows while the store is away,
and what it published a moment ago is known to the others one round trip later: an intent that is
overtaken by its own write restores nothing. Dry runs stay in the memory of their replica.

Others may write to the store. So what comes out of it is only taken if this server might have
written the same; the rest is dropped and counted.
"""

import asyncio
from collections import Counter, deque
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from importlib import resources
from typing import Any, Final

import msgspec

from genguard.admission.review import JoinKey
from genguard.objects.intended import Intended, Restored
from genguard.review_setup import SECONDS_KEPT, MemoryIntents
from webhook.store.client import Command, Store, StoreLostError

_KEPT_MILLISECONDS: Final = int(SECONDS_KEPT * 1000)
LARGEST_VALUE: Final = 1024 * 1024
"""Bytes of a value that is read; no replica writes nearly as many."""
MOST_UNSENT: Final = 5_000
"""Commands that wait to be sent; further ones are dropped and counted."""
_MOST_AT_ONCE: Final = 500
_PUT, _ASK = (
    resources.files(__package__).joinpath(script).read_text("ascii")
    for script in ("put_intent.lua", "ask_intent.lua")
)
_decoder: Final = msgspec.msgpack.Decoder(Intended)
_UNUSED: Final = ("unreadable", "unfit")


class SharedIntents:
    """The Intents of restore_intent, shared by replicas. `run` it in a task."""

    def __init__(self, store: Store, prefix: str, restored: Restored) -> None:
        """`restored` are the fields that this server restores."""
        self._store: Final = store
        self._prefix: Final = f"{prefix}i2:".encode()  # 2: the form of what is kept
        self._restored: Final = restored
        self._own: Final = MemoryIntents()
        self._unsent: Final[deque[tuple[str, Command]]] = deque()
        self._underway: Final[set[str | bytes | int]] = set()
        """The names of intents that were put and have not reached the store yet."""
        self._wake: Final = asyncio.Event()
        self.unused: Final = Counter(dict.fromkeys(_UNUSED, 0))
        """Values of the store that were not taken, or not entirely, by reason."""
        self.probe: Final[Command] = ("EVAL", _PUT, 1, f"{prefix}probe", b"", 1_000)
        """A command that succeeds only where those of intents may succeed."""

    @property
    def dropped(self) -> int:
        """As MemoryIntents."""
        return self._own.dropped

    def put(self, key: JoinKey, intended: Intended, now: float) -> None:
        """Remember an intent, and share it."""
        self._own.put(key, intended, now)
        if not key.dry_run:
            name, content = self._name(key), msgspec.msgpack.encode(intended)
            if self._post("put", ("EVAL", _PUT, 1, name, content, _KEPT_MILLISECONDS)):
                self._underway.add(name)

    def get(self, key: JoinKey, now: float) -> Intended | None:
        """Return the intent of a write as far as it is known here, and mark it as asked for."""
        # Where /mutate did not ask the store: the next intent of this key belongs to another write.
        is_known = key.subresource == "status" or self._own.has(key, now)
        if is_known and not key.dry_run and not self._own.was_asked(key, now):
            self._post("mark", self._ask(key))
        return self._own.get(key, now)

    def lacks(self, key: JoinKey) -> bool:
        """Whether the store may know more of this intent."""
        return self._store.up and not key.dry_run

    async def fetch(self, key: JoinKey, now: float) -> None:
        """Ask the store once for the intent of a write.

        Waits for ANSWER_SECONDS at most. Never raises.
        """
        try:
            reply = await self._store.ask("fetch", self._ask(key))
        except StoreLostError:
            return
        if reply is None:
            return
        try:
            intended = self._accepted(reply)
            if self._name(key) in self._underway and self._own.get(key, now) != intended:
                intended = None  # nobody knows which of the two came first
            self._own.learn(key, intended, now)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self.unused["unreadable"] += 1

    async def run(self) -> None:
        """Send what is put and asked for, for ever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._unsent:
                await self._send_some()

    async def _send_some(self) -> None:
        """Send the next commands of one operation, in their order."""
        operation, _ = self._unsent[0]
        commands = list[Command]()
        while self._unsent and len(commands) < _MOST_AT_ONCE and self._unsent[0][0] == operation:
            commands.append(self._unsent.popleft()[1])
        with suppress(StoreLostError):  # counted; ObservationSender finds out whether it is away
            await self._store.send(operation, *commands)
        self._underway.difference_update(command[3] for command in commands)

    def _post(self, operation: str, command: Command) -> bool:
        if not self._store.up or len(self._unsent) >= MOST_UNSENT:
            self._store.requests[operation, "dropped"] += 1
            return False
        self._unsent.append((operation, command))
        self._wake.set()
        return True

    def _ask(self, key: JoinKey) -> Command:
        return ("EVAL", _ASK, 1, self._name(key), _KEPT_MILLISECONDS, LARGEST_VALUE)

    def _name(self, key: JoinKey) -> bytes:
        return self._prefix + _digest(key)

    def _accepted(self, reply: Any) -> Intended | None:
        """Return the part of an intent that this server might have put; None where cancelled.

        Raises msgspec.MsgspecError or UnicodeDecodeError.
        """
        content = msgspec.convert(reply, bytes)
        if not content:
            return None
        sent = _decoder.decode(content)
        intended = self._restored.hold(sent)
        is_complete = sent.observed == intended.observed
        self.unused["unfit"] += not (is_complete and len(sent.fields) == len(intended.fields))
        return intended


# The phases of one write, and the lookups of each of them, follow one another closely.
@lru_cache(maxsize=64)
def _digest(key: JoinKey) -> bytes:
    return blake2b(msgspec.msgpack.encode(key), digest_size=16).hexdigest().encode()
