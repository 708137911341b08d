"""JSON logs: one object a line, no contents, no flood, no waiting."""

import contextlib
import errno
import io
import json
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.waiting import PATIENCE
from webhook.telemetry.logs import LOGGER, JSONFormatter, RateLimit, logging_to_stderr

CANARY = "canary-7f3a"


def record(message: str = "repaired", at: float = 0.0, **fields: Any) -> logging.LogRecord:
    made = logging.LogRecord("genguard", logging.INFO, __file__, 1, message, None, None)
    made.created, made.msecs = at, (at % 1) * 1000
    made.__dict__["fields"] = fields
    return made


@pytest.fixture
def stderr() -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """Log to a string; call it at the end for the lines."""
    written = io.StringIO()
    levels = logging.getLogger().level, LOGGER.level
    with contextlib.ExitStack() as stack:
        with contextlib.redirect_stderr(written):
            stack.enter_context(logging_to_stderr())

        def finish() -> list[dict[str, Any]]:
            stack.close()
            return [json.loads(line) for line in written.getvalue().splitlines()]

        yield finish
    logging.getLogger().setLevel(levels[0])
    LOGGER.setLevel(levels[1])


def test_no_name_forges_a_line_or_moves_a_terminals_cursor():
    name = '\n{"level":"error"}\r\n\u2028\x85\x1b[2J\x9b2J\u202e\x00\ud800'
    text = JSONFormatter().format(record(name=name))
    assert len(text.splitlines()) == 1
    assert text.isascii()
    assert text.isprintable()
    assert json.loads(text)["name"] == name


def test_an_exception_tells_its_type_and_place_and_not_its_text():
    made = record("handler failed")
    try:
        int(CANARY)
    except ValueError as error:
        made.exc_info = (ValueError, error, error.__traceback__)
    text = JSONFormatter().format(made)
    assert CANARY not in text
    line = json.loads(text)
    assert line["error"] == "ValueError"
    assert line["at"].startswith(__file__)


def test_the_lines_of_one_message_are_limited_and_the_next_tells_what_was_left_out():
    limit = RateLimit(per_second=1.0, burst=3)
    assert [limit.filter(record()) for _ in range(5)] == [True, True, True, False, False]
    assert limit.filter(record("another"))
    later = record(at=1.0)
    assert limit.filter(later)
    assert later.__dict__["fields"] == {"leftOut": 2}
    assert not limit.filter(record(at=1.5))


def test_a_clock_that_is_put_back_an_hour_silences_nobody():
    limit = RateLimit(per_second=1.0, burst=3)
    limit.filter(record(at=3_600.0))
    assert [limit.filter(record(at=1.0)) for _ in range(3)] == [True, True, False]
    assert limit.filter(record(at=2.0))


def test_messages_of_libraries_do_not_fill_the_memory():
    limit = RateLimit()
    for number in range(20_000):
        limit.filter(record(f"object at {number:x}"))
    assert len(limit._buckets) <= 1_001


def test_libraries_are_heard_from_warning_on_and_ourselves_from_info(stderr):
    logging.getLogger("aiohttp.server").info("unheard")
    logging.getLogger("aiohttp.server").warning("heard %s", "too")
    LOGGER.debug("unheard")
    LOGGER.info("heard", extra={"fields": {"name": "web"}})
    lines = stderr()
    assert [line["message"] for line in lines] == ["heard too", "heard"]
    assert lines[1]["name"] == "web"


def test_what_cannot_be_written_is_lost_without_a_traceback():
    tried = threading.Event()

    class Full(io.StringIO):
        is_full = True

        def write(self, text: str) -> int:
            if self.is_full:
                tried.set()
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().write(text)

    written = Full()
    with contextlib.redirect_stderr(written), logging_to_stderr():
        LOGGER.info("lost")
        assert tried.wait(PATIENCE)
        written.is_full = False
        LOGGER.info("written")
    assert [json.loads(line)["message"] for line in written.getvalue().splitlines()] == ["written"]


def test_what_waits_for_a_reader_that_stands_still_is_bounded(monkeypatch):
    monkeypatch.setattr("webhook.telemetry.logs._QUEUED_LINES", 3)
    may_go_on = threading.Event()

    class Still(io.StringIO):
        def write(self, text: str) -> int:
            may_go_on.wait(PATIENCE)
            return super().write(text)

    written = Still()
    with contextlib.redirect_stderr(written), logging_to_stderr():
        for number in range(10):
            LOGGER.info("line %d", number)
        may_go_on.set()
    # One more where the first line is taken before the others come.
    assert len(written.getvalue().splitlines()) in (3, 4)
