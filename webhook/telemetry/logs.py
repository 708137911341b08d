"""Writes logs to standard error as JSON: what happened and where, never the contents of an object.

Lines go through a queue to a thread, so that a slow terminal or disk never delays an answer. Lines
with the same message are limited: a loop of writes must not fill the disk with its own log.
"""

import json
import logging
import logging.handlers
import queue
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TextIO

LOGGER: Final = logging.getLogger("genguard")
_QUEUED_LINES: Final = 10_000
_MESSAGES: Final = 1_000


class JSONFormatter(logging.Formatter):
    """One object a line: time, level, message, and the fields of `extra={"fields": {...}}`."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record in ASCII: nothing in it can forge a line or move a terminal's cursor."""
        line: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[1] is not None:
            # The type and place, not the text: it may quote what was being read.
            error = record.exc_info[1]
            line |= {"error": type(error).__name__, "at": ""}
            for frame, number in traceback.walk_tb(error.__traceback__):
                line["at"] = f"{frame.f_code.co_filename}:{number}"  # the last is the innermost
        return json.dumps(line)


class RateLimit(logging.Filter):
    """Limits the lines of each message by a token bucket; the next line counts those left out."""

    def __init__(self, per_second: float = 10.0, burst: int = 50) -> None:
        super().__init__()
        self._per_second: Final = per_second
        self._burst: Final = burst
        self._buckets: Final[dict[str, tuple[float, float, int]]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is written: its message has tokens left."""
        if len(self._buckets) > _MESSAGES:
            self._buckets.clear()  # messages of libraries may hold anything, addresses too
        if self.leaves_out(record.msg, record.created):
            return False
        tokens, at, missed = self._buckets[record.msg]
        self._buckets[record.msg] = (tokens - 1, at, 0)
        if missed:
            record.__dict__["fields"] = {**getattr(record, "fields", {}), "leftOut": missed}
        return True

    def leaves_out(self, message: str, now: float) -> bool:
        """Whether a line would be left out now; if so it is counted as left out."""
        tokens, at, missed = self._buckets.get(message, (float(self._burst), now, 0))
        # A clock that is set back takes no tokens: otherwise nothing would be logged until it is
        # where it was.
        tokens = min(self._burst, tokens + max(0.0, now - at) * self._per_second)
        is_spent = tokens < 1
        self._buckets[message] = (tokens, now, missed + is_spent)
        return is_spent


def is_heard(level: int, message: str) -> bool:
    """Whether LOGGER would write a line now; asked first where making the line is costly."""
    if not LOGGER.isEnabledFor(level):
        return False
    limits = [
        limit
        for handler in logging.getLogger().handlers
        for limit in handler.filters
        if isinstance(limit, RateLimit)
    ]
    return not any(limit.leaves_out(message, time.time()) for limit in limits)


@contextmanager
def logging_to_stderr(level: str = "INFO") -> Iterator[None]:
    """Send the `genguard` logger, and warnings of libraries, to standard error as JSON."""
    lines: queue.SimpleQueue[Any] = queue.SimpleQueue()
    handler = _DroppingQueueHandler(lines)
    handler.addFilter(RateLimit())
    writer = _Writer(sys.stderr)
    writer.setFormatter(JSONFormatter())
    listener = logging.handlers.QueueListener(lines, writer)
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    LOGGER.setLevel(level)
    listener.start()
    try:
        yield
    finally:
        root.removeHandler(handler)
        listener.stop()


class _Writer(logging.StreamHandler[TextIO]):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Ignore an error: its traceback is no JSON and could not be written either."""


class _DroppingQueueHandler(logging.handlers.QueueHandler):
    def __init__(self, lines: queue.SimpleQueue[Any]) -> None:
        super().__init__(lines)
        self._lines: Final = lines

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        return record  # the listener shares this process: keep exc_info for the formatter

    def enqueue(self, record: logging.LogRecord) -> None:
        # Never wait for a log line, nor for the lock of a queue that has a bound of its own.
        if self._lines.qsize() < _QUEUED_LINES:
            self._lines.put(record)
