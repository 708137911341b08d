"""The way to a shared store: open while it answers in time, and of no cost while it does not.

lost ──probe succeeds──► up ──a command fails, or takes too long──► lost, and probed again at once

Only what two probes do not bring back is told as lost. While it is lost nothing is
asked and nothing is sent: a write waits for the store once, for no longer than ANSWER_SECONDS.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from typing import Any, Final, NamedTuple, Protocol

from webhook.store.scripts import Command
from webhook.telemetry.logs import LOGGER

ANSWER_SECONDS: Final = 0.02
"""The longest that an answer to the API server waits for the store."""
_SHORTEST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 1.0
MOST_UNANSWERED: Final = 5_000
"""Commands on their way; what comes on top is dropped and counted."""
_HEARTBEAT_SECONDS: Final = 1.0
_PROBES: Final = 3
_SUBSCRIBE_SECONDS: Final = 1.0
_STALL_SECONDS: Final = 0.005
_LATE: Final = f"no answer within {ANSWER_SECONDS * 1000:g} ms"

Answer = Any
"""bytes, int, None or a list of these; a LostError for what was not answered."""


class LostError(Exception):
    """The store is of no use now; the message is why, in words of our own."""


class Line(Protocol):
    """A connection; any command that fails ends it."""

    @property
    def ended(self) -> asyncio.Future[str]:
        """Done, with the reason, once it cannot be used any more."""

    def __len__(self) -> int:
        """How many commands have no answer yet."""

    def send(self, command: Command, done: Callable[[Answer], None]) -> None:
        """Send soon; `done` gets the answer, or a LostError."""

    def end(self, reason: str) -> None:
        """Give up at once."""

    async def close(self) -> None:
        """Give up, and free what is held."""


class Way(NamedTuple):
    """How the store is reached.

    open    a new line; raises LostError
    listen  hands on every message, after on_open was called, until it fails; gives the reason
    probe   a command that succeeds only where all the others may
    """

    open: Callable[[], Awaitable[Line]]
    listen: Callable[[Callable[[], None], Callable[[bytes], None]], Awaitable[str]]
    probe: Command


class Hearer(Protocol):
    """Whom the store's messages are for."""

    def call_back(self, message: bytes) -> None:
        """One message of the channel."""

    def call_back_all(self) -> None:
        """Messages may have been missed."""


class Turn(NamedTuple):
    """The store was lost, or is back."""

    up: bool
    reason: str


class _Pace(Enum):
    IN_TIME = auto()
    LATE = auto()
    UNKNOWN = auto()
    """Late, but so was this process itself."""


class Circuit:
    """`run` it; what is asked or published meanwhile never raises and never waits for long."""

    def __init__(self, way: Way, on_turn: Callable[[Turn], None]) -> None:
        """`on_turn` is told what is also logged."""
        self._way: Final = way
        self._on_turn: Final = on_turn
        self._line: Line | None = None
        self._told: Turn | None = None
        self.requests: Final[Counter[tuple[str, str]]] = Counter()
        """By operation and result."""

    @property
    def up(self) -> bool:
        """Whether the store is asked now."""
        return self._line is not None

    def publish(self, operation: str, command: Command) -> None:
        """Send a command behind the answer; nobody waits for it."""
        line = self._line
        if line is None or len(line) >= MOST_UNANSWERED:
            self.requests[operation, "dropped"] += 1
            return

        def done(answer: Answer) -> None:
            lost = isinstance(answer, LostError)
            self.requests[operation, "lost" if lost else "ok"] += 1

        line.send(command, done)

    async def ask(self, operation: str, command: Command) -> Answer:
        """The answer to a command. Raises LostError, at the latest after ANSWER_SECONDS."""
        line = self._line
        if line is None or len(line) >= MOST_UNANSWERED:
            self.requests[operation, "skipped"] += 1
            raise LostError("not asked")
        late = time.monotonic() + ANSWER_SECONDS
        try:
            answer = await answer_of(line, command, ANSWER_SECONDS)
        except LostError:
            self.requests[operation, "lost"] += 1
            raise
        except TimeoutError:
            self.requests[operation, "timeout"] += 1
            if not _held_up(late):
                line.end(_LATE)
            raise LostError(_LATE) from None
        self.requests[operation, "ok"] += 1
        return answer

    async def run(self, hearer: Hearer) -> None:
        """Keep a line, for ever."""
        pause = 0.0
        while True:
            reason, seconds = await self._use(hearer)
            lasted = seconds > _LONGEST_PAUSE
            pause = 0.0 if lasted else min(max(2 * pause, _SHORTEST_PAUSE), _LONGEST_PAUSE)
            if pause > _SHORTEST_PAUSE:
                self._turn(Turn(up=False, reason=reason))
            await asyncio.sleep(pause)

    async def _use(self, hearer: Hearer) -> tuple[str, float]:
        """One line from its beginning to its end: why it ended, and how long it was of use."""
        try:
            line = await self._way.open()
        except LostError as error:
            return str(error), 0.0
        heard = asyncio.Event()
        listening = asyncio.create_task(self._listen(line, heard.set, hearer))
        began = None
        try:
            await self._try_out(line, heard)
            hearer.call_back_all()
            self._line, began = line, time.monotonic()
            self._turn(Turn(up=True, reason=""))
            await self._hold(line)
        except LostError as error:
            line.end(str(error))
        finally:
            self._line = None
            listening.cancel()
            await asyncio.gather(listening, line.close(), return_exceptions=True)
        return line.ended.result(), 0.0 if began is None else time.monotonic() - began

    async def _listen(self, line: Line, on_open: Callable[[], None], hearer: Hearer) -> None:
        line.end(await self._way.listen(on_open, hearer.call_back))

    async def _try_out(self, line: Line, heard: asyncio.Event) -> None:
        """Raise LostError unless messages come and commands are answered in time."""
        waiting = asyncio.create_task(heard.wait())
        await asyncio.wait(
            (waiting, line.ended), timeout=_SUBSCRIBE_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        waiting.cancel()
        if line.ended.done():
            raise LostError(line.ended.result())
        if not heard.is_set():
            raise LostError("no answer in time")
        if await self._pace(line) is not _Pace.IN_TIME:
            raise LostError(_LATE)

    async def _hold(self, line: Line) -> None:
        """Return when the line has ended; one that has become slow or silent is noticed."""
        while not line.ended.done():
            await asyncio.wait((line.ended,), timeout=_HEARTBEAT_SECONDS)
            if _Pace.LATE is await self._pace(line):
                raise LostError(_LATE)

    async def _pace(self, line: Line) -> _Pace:
        """The best of a few answers; raises LostError."""
        found = _Pace.LATE
        for _ in range(_PROBES):
            late = time.monotonic() + ANSWER_SECONDS
            try:
                await answer_of(line, self._way.probe, ANSWER_SECONDS)
            except TimeoutError:
                found = _Pace.UNKNOWN if _held_up(late) else found
            else:
                return _Pace.IN_TIME
        return found

    def _turn(self, turn: Turn) -> None:
        before, self._told = self._told, turn
        if before == turn:
            return
        if not turn.up:
            # Another reason is told too: what was restarted may now refuse the password.
            facts = {"reason": turn.reason, "effect": "each replica goes by its own memory"}
            LOGGER.warning("store lost", extra={"facts": facts})
        else:
            LOGGER.info("store connected" if before is None else "store is back")
        if turn.up != (before is None or before.up):
            self._on_turn(turn)


def _held_up(late: float) -> bool:
    """Whether this process itself was: then the answer may be there, waiting to be read."""
    return time.monotonic() - late >= _STALL_SECONDS


async def answer_of(line: Line, command: Command, seconds: float) -> Answer:
    """One command and its answer. Raises LostError or TimeoutError."""
    answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    def done(answer: Answer) -> None:
        if not answered.done():
            answered.set_result(answer)

    line.send(command, done)
    async with asyncio.timeout(seconds):
        answer = await answered
    if isinstance(answer, LostError):
        raise answer
    return answer
