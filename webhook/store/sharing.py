"""One detection for all replicas: each judges what all of them see, in the order of one stream.

    alone ──the stream is read──► shared ──the store is lost──► alone

While it is shared, what this replica sees is sent, and judged when it comes back among what the
others saw. Alone it is judged at once; what was found then is told to the others afterwards. So
all hold the same findings with the same counts. Nobody waits for any of it.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from typing import Final, NamedTuple, Protocol

from webhook.store.circuit import MOST_UNANSWERED, Answer, Line, LostError, answer_of
from webhook.store.intake import Intake, Judge, Past
from webhook.store.outbox import LARGEST_FACT, Outbox
from webhook.store.saving import Known, Saving
from webhook.store.scripts import Command
from webhook.store.seal import Seal
from webhook.store.snapshot import Snapshots
from webhook.store.stream import AFTER_ALL, BEGINNING, MOST_AT_ONCE, Stream, order
from webhook.telemetry.logs import LOGGER

GATHER_SECONDS: Final = 0.05
"""What is seen in so long goes into one message: twenty a second of each replica at most."""
_RESULTS: Final = ("sent", "read", "alone", "missed", "dropped", "unreadable", "unsealed")
_SHORTEST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 1.0
_ANSWER_SECONDS: Final = 5.0


class Sharer(Judge, Known, Protocol):
    """A Detection."""

    def end_wait(self) -> None:
        """No fact is on its way: judge those that wait for one."""


class Teller(Protocol):
    """Tells of findings as they turn."""

    def hold(self) -> None:
        """Tell nothing for now."""

    def go_on(self) -> None:
        """Tell again; what is known by now is no news."""


class Reader(Protocol):
    """A connection of its own; see ValkeyReader. Everything raises LostError."""

    async def read(self, key: bytes, after: bytes, *, wait: bool) -> Sequence[tuple[bytes, bytes]]:
        """The next MOST_AT_ONCE messages with their ids; with `wait` it waits for one."""

    async def ends(self, key: bytes) -> tuple[bytes, bytes] | None:
        """The ids of the first and the last message."""

    async def get(self, key: bytes) -> bytes | None:
        """The value of another key."""

    async def close(self) -> None:
        """Free what is held."""


class Place(NamedTuple):
    """A store, and who shares it. The connections are sharing's own: they may be slow.

    open_reader, open_line   new connections; raise LostError
    probe                    a command that succeeds only where all the others may
    me                       this process's alone
    seal                     for all that is stored
    """

    open_reader: Callable[[], Awaitable[Reader]]
    open_line: Callable[[], Awaitable[Line]]
    probe: Command
    prefix: str
    me: bytes
    seal: Seal


class Sharing:
    """`run` it. Until then, and whenever the store is lost, `put` refuses."""

    def __init__(self, place: Place, judge: Sharer) -> None:
        self._place: Final = place
        self._judge: Final = judge
        self._stream: Final = Stream(place.prefix, place.seal)
        snapshots = Snapshots(place.prefix, place.seal)
        self._saving: Final = Saving(self._publish, snapshots, judge)
        self._outbox: Final = Outbox(self._publish, self._stream, place.me)
        self._intake: Final = Intake(judge, self._stream, place.me, self._outbox.came_back)
        self._line: Line | None = None
        self._flushing: asyncio.TimerHandle | None = None
        self._reason: str | None = None
        self._counts: Final[Counter[str]] = Counter()

    @property
    def is_shared(self) -> bool:
        """Whether what this replica sees is judged by all."""
        return self._line is not None and not self._line.ended.done()

    @property
    def is_saved(self) -> bool:
        """Whether a replica that is new would begin with all that was read here."""
        return self._saving.saved == self._intake.at

    def lag(self) -> float:
        """Seconds for which the oldest message has not come back."""
        return self._outbox.lag()

    def counts(self) -> Iterator[tuple[tuple[str, ...], int]]:
        """Facts, and a few messages, by what became of them."""
        known = self._counts + self._intake.counts
        known["dropped"] += self._outbox.dropped
        return (((result,), known[result]) for result in _RESULTS)

    def put(self, fact: bytes) -> bool:
        """Send what this replica saw; False where it has to judge it by itself."""
        if not self.is_shared:
            self._counts["alone"] += 1
            return False
        if len(fact) > LARGEST_FACT:
            self._counts["dropped"] += 1
            return True
        self._counts["sent"] += 1
        if self._outbox.put(fact):
            self.flush()
        elif self._flushing is None:
            loop = asyncio.get_running_loop()
            self._flushing = loop.call_later(GATHER_SECONDS, self.flush)
        return True

    async def run(self, teller: Teller, leads: Callable[[], bool]) -> None:
        """Follow the stream whenever there is one, for ever; one of the replicas `leads`."""
        pause = 0.0
        while True:
            began = time.monotonic()
            try:
                await self._connect(teller, leads)
            except LostError as error:
                reason = str(error)
            lasted = time.monotonic() - began > _LONGEST_PAUSE
            pause = (
                _SHORTEST_PAUSE if lasted else min(max(2 * pause, _SHORTEST_PAUSE), _LONGEST_PAUSE)
            )
            if pause > _SHORTEST_PAUSE:
                self._tell(reason)
            await asyncio.sleep(pause)

    async def finish(self) -> None:
        """Send what is gathered, and see it arrive. Never raises."""
        self.flush()
        if self._line is not None:
            with contextlib.suppress(LostError, TimeoutError):
                await answer_of(self._line, AFTER_ALL, _ANSWER_SECONDS)

    def flush(self) -> None:
        """Send what is gathered."""
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        self._outbox.flush()

    async def _connect(self, teller: Teller, leads: Callable[[], bool]) -> None:
        """Follow the stream until something fails. Raises LostError."""
        async with AsyncExitStack() as stack:
            reader = await self._place.open_reader()
            stack.push_async_callback(reader.close)
            line = await self._place.open_line()
            stack.push_async_callback(line.close)
            try:
                await answer_of(line, self._place.probe, _ANSWER_SECONDS)
                await self._follow(reader, line, teller, leads)
            except TimeoutError:
                raise LostError("no answer in time") from None
            finally:
                self._line = None
                self._intake.break_off()
                teller.go_on()

    async def _follow(
        self, reader: Reader, line: Line, teller: Teller, leads: Callable[[], bool]
    ) -> None:
        intake = self._intake
        is_new = intake.at == BEGINNING
        past = await self._past(reader)
        if is_new or past is not None:
            teller.hold()
        self._join(line, past)
        is_waiting = False
        while True:
            found = await self._read(reader, line.ended, wait=is_waiting)
            for at, raw in found:
                await intake.take(at, raw)
            if is_waiting and not found:
                self._judge.end_wait()
            is_waiting = len(found) < MOST_AT_ONCE
            if is_waiting:
                intake.finish()
                teller.go_on()
                # What is told after a message is not among what is known as of that message.
                if leads() and not self._outbox.is_telling:
                    await self._saving.save(intake.at)

    async def _read(
        self, reader: Reader, ended: asyncio.Future[str], *, wait: bool
    ) -> Sequence[tuple[bytes, bytes]]:
        """The next messages. Raises LostError, also when it is the other connection that fails."""
        reading = asyncio.ensure_future(reader.read(self._stream.key, self._intake.at, wait=wait))
        try:
            await asyncio.wait((reading, ended), return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                raise LostError(ended.result())
            return reading.result()
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _past(self, reader: Reader) -> Past | None:
        """What to begin with, where the messages since the last one read are not all there."""
        intake, key = self._intake, self._stream.key
        first, last = await reader.ends(key) or (BEGINNING, BEGINNING)
        if order(last) < order(intake.at):
            intake.at = BEGINNING  # of another stream, and the clock of its store may be behind
        elif first != BEGINNING and order(first) <= order(intake.at):
            return None
        snapshot = await self._saving.snapshots.read(reader.get)
        if snapshot is None or order(snapshot.at) <= order(intake.at):
            return None
        ends = await reader.ends(key)
        if ends is not None and order(snapshot.at) > order(ends[1]):
            return None  # of another stream
        return Past(snapshot, is_over=ends is None)

    def _join(self, line: Line, past: Past | None) -> None:
        """From now on all judge what this replica sees. In one step: nothing comes in between."""
        mine = self._judge.found_alone()
        self._intake.begin(past, mine)
        self._line, self._saving.saved = line, BEGINNING
        self._outbox.send_again()
        self._outbox.tell(mine)
        if self._reason is not None:
            self._reason = None
            LOGGER.info("findings are shared again")

    def _publish(self, command: Command) -> None:
        line = self._line
        if line is None:
            return
        if len(line) >= MOST_UNANSWERED:
            line.end("no answer in time")  # what was sent is sent again
        line.send(command, _ignore)

    def _tell(self, reason: str) -> None:
        if reason != self._reason:
            facts = {"reason": reason, "effect": "each replica finds what it sees itself"}
            LOGGER.warning("findings not shared", extra={"facts": facts})
        self._reason = reason


def _ignore(answer: Answer) -> None:
    """Where an answer is an error the line ends; what was sent comes back, or is sent again."""
    del answer
