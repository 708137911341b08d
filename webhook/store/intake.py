"""Takes in what the stream says: each message once, whoever sent it, and nothing that is bad.

A replica that is new reads what is still in the stream for what it will need to know of the past,
and has the findings of the others from a snapshot, at the message that this is of.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable
from typing import Final, NamedTuple, Protocol

import msgspec

from webhook.detection.fact import UnreadableFactError
from webhook.store.seal import UnsealedError
from webhook.store.snapshot import Snapshot
from webhook.store.stream import BEGINNING, BadMessageError, Facts, Found, Row, Stream, order

_MOST_KNOWN: Final = 10_000
"""Messages: more than are in a stream."""


class Judge(Protocol):
    """What a Detection does; see there."""

    def see_encoded(self, fact: bytes) -> None:
        """Judge a fact. Raises UnreadableFactError."""

    def found_alone(self) -> list[Row]:
        """What came of facts that no other replica saw, since this was asked last."""

    def absorb(self, rows: Iterable[Row]) -> None:
        """Add what another one found alone. Raises MsgspecError or ValueError."""

    def restore(self, rows: Iterable[Row], waiting: Collection[bytes]) -> None:
        """Have these findings and no other, and these facts to judge still.

        Raises MsgspecError or ValueError.
        """


class Past(NamedTuple):
    """What a replica begins with; `is_over`: there is no older message to be read."""

    snapshot: Snapshot
    is_over: bool


class Intake:
    """What was read of the stream, and what comes next."""

    def __init__(
        self, judge: Judge, stream: Stream, me: bytes, came_back: Callable[[int], None]
    ) -> None:
        """`came_back` is told the numbers of this replica's own messages."""
        self._judge: Final = judge
        self._stream: Final = stream
        self._me: Final = me
        self._came_back: Final = came_back
        self._known: Final[OrderedDict[tuple[bytes, int], None]] = OrderedDict()
        self._latest: Final[dict[bytes, int]] = {}
        self._snapshot: Snapshot | None = None
        self._mine: list[Row] = []
        self.at = BEGINNING
        """The id of the message that was read last."""
        self.counts: Final[Counter[str]] = Counter()

    def begin(self, past: Past | None, mine: list[Row]) -> None:
        """Messages come from now on; `mine` is what was found alone by then."""
        self._snapshot, self._mine = None if past is None else past.snapshot, mine
        if past is not None and past.is_over:
            self.finish()

    def finish(self) -> None:
        """The past was read as far as it is there: the snapshot holds, whatever came of it."""
        snapshot, self._snapshot = self._snapshot, None
        if snapshot is None:
            return
        try:
            self._judge.restore(snapshot.rows, snapshot.waiting)
            self._judge.absorb(self._mine)
        except (msgspec.MsgspecError, ValueError):
            self.counts["unreadable"] += 1

    def break_off(self) -> None:
        """No more of the past can be read: go on after it."""
        if self._snapshot is not None:
            self.at = max(self.at, self._snapshot.at, key=order)
            self.finish()

    async def take(self, at: bytes, raw: bytes) -> None:
        """Judge one message, in small bites."""
        if self._snapshot is not None and order(at) > order(self._snapshot.at):
            self.finish()
        self.at = at
        try:
            message = self._stream.decode(raw)
        except UnsealedError:
            self.counts["unsealed"] += 1
            return
        except BadMessageError:
            self.counts["unreadable"] += 1
            return
        if message.sender == self._me:
            self._came_back(message.number)
        if not self._is_news(message):
            return
        if isinstance(message, Facts):
            for fact in message.facts:
                self._see(fact)
                await asyncio.sleep(0)
        elif message.sender != self._me:
            self._absorb(message)

    def _is_news(self, message: Facts | Found) -> bool:
        key = message.sender, message.number
        if key in self._known:
            return False
        self._known[key] = None
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
        latest = self._latest.get(message.sender)
        if latest is not None:
            self.counts["missed"] += max(0, message.number - latest - 1)
        self._latest[message.sender] = max(message.number, latest or 0)
        return True

    def _see(self, fact: bytes) -> None:
        try:
            self._judge.see_encoded(fact)
        except UnreadableFactError:
            self.counts["unreadable"] += 1
        else:
            self.counts["read"] += 1

    def _absorb(self, message: Found) -> None:
        try:
            self._judge.absorb(message.rows)
        except (msgspec.MsgspecError, ValueError):
            self.counts["unreadable"] += 1
