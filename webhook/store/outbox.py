"""What this replica tells the others: gathered for a moment, sent at once, sent again after a loss.

A message is kept until it has come back in the stream and a little longer, for what was stored
may be lost with the store before every replica has read it.
"""

import itertools
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from webhook.store.scripts import Command
from webhook.store.stream import MOST_BYTES, Facts, Found, Message, Row, Stream, by_size

KEPT_SECONDS: Final = 3.0
"""After its return: longer than any replica is behind another one that reads."""
MOST_SECONDS: Final = 60.0
"""What has not come back by then is too old to be joined with what others saw."""
MOST_KEPT_BYTES: Final = 8 * 1024 * 1024
LARGEST_FACT: Final = 64 * 1024
"""Of some thousand changes; a larger one is no message."""

Publish = Callable[[Command], None]


@dataclass(slots=True)
class _Sent:
    number: int
    at: float
    command: Command
    size: int
    is_found: bool
    back: float | None = None


class Outbox:
    """Messages on their way. Never waits, never raises."""

    def __init__(
        self,
        publish: Publish,
        stream: Stream,
        sender: bytes,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`publish` sends a command, if that can be now."""
        self._publish: Final = publish
        self._stream: Final = stream
        self._sender: Final = sender
        self._clock: Final = clock
        self._numbers: Final = itertools.count(1)
        self._facts: list[bytes] = []
        self._size = 0
        self._sent: Final[deque[_Sent]] = deque()
        self._kept_bytes = 0
        self.dropped = 0
        """Messages that were given up before they came back."""

    def put(self, fact: bytes) -> bool:
        """Gather a fact of LARGEST_FACT at most; whether it is time to send."""
        self._facts.append(fact)
        self._size += len(fact)
        return self._size >= MOST_BYTES

    def flush(self) -> None:
        """Send what is gathered."""
        facts, self._facts, self._size = tuple(self._facts), [], 0
        if facts:
            self._send(Facts(self._sender, next(self._numbers), facts))

    def tell(self, rows: Iterable[Row]) -> None:
        """Send findings."""
        for some in by_size(rows, lambda row: len(row[1])):
            self._send(Found(self._sender, next(self._numbers), tuple(some)))

    def came_back(self, number: int) -> None:
        """A message of ours was read in the stream."""
        now = self._clock()
        for one in self._sent:
            if one.number == number:
                one.back = now
        self._forget(now)

    def send_again(self) -> None:
        """After a loss: all that the others may not have read."""
        self._forget(self._clock())
        for one in self._sent:
            self._publish(one.command)

    @property
    def is_telling(self) -> bool:
        """Findings are on their way: they are not in the stream yet, as far as is known."""
        return any(one.is_found and one.back is None for one in self._sent)

    def lag(self) -> float:
        """Seconds since the oldest message was sent that has not come back; 0 without one."""
        return next((self._clock() - one.at for one in self._sent if one.back is None), 0.0)

    def _send(self, message: Message) -> None:
        command, now = self._stream.append(message), self._clock()
        self._publish(command)
        size = sum(len(part) for part in command if isinstance(part, bytes))
        is_found = isinstance(message, Found)
        self._sent.append(_Sent(message.number, now, command, size, is_found))
        self._kept_bytes += size
        self._forget(now)

    def _forget(self, now: float) -> None:
        while self._sent:
            oldest = self._sent[0]
            is_read = oldest.back is not None and oldest.back < now - KEPT_SECONDS
            is_old = oldest.at < now - MOST_SECONDS
            if not (is_read or is_old or self._kept_bytes > MOST_KEPT_BYTES):
                return
            self.dropped += oldest.back is None
            self._kept_bytes -= oldest.size
            self._sent.popleft()
