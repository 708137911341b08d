"""Fixtures of this folder: a running server, and everything it logged."""

import contextlib
import io
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from tests.contract.service import Running, serving
from tests.event_loops import EVENT_LOOPS, environment
from tests.nightly import by_day
from webhook.telemetry.logs import LOGGER, logging_to_stderr


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    """A server with default options; `serving` makes others."""
    async with serving(tmp_path) as run:
        yield run


@pytest.fixture(params=by_day(EVENT_LOOPS, these=["uvloop"]))  # the image has it
def on_each_loop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a server runs on reads sockets and speaks TLS in its own way."""
    for name, value in environment(request.param).items():
        monkeypatch.setenv(name, value)
    return str(request.param)


@pytest.fixture
def logged() -> Iterator[Callable[[], str]]:
    """Log as `serve` does, debug lines too; call it at the end to get what was written."""
    written = io.StringIO()
    root, levels = logging.getLogger(), (logging.getLogger().level, LOGGER.level)
    with contextlib.ExitStack() as stack:
        with contextlib.redirect_stderr(written):
            stack.enter_context(logging_to_stderr("DEBUG"))

        def finish() -> str:
            stack.close()
            return written.getvalue()

        yield finish
    root.setLevel(levels[0])
    LOGGER.setLevel(levels[1])
