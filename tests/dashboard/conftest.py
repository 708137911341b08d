"""A server with a story, and a browser to look at it with."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser

from tests.contract.service import Running, serving
from tests.dashboard.browser import Visitor, chromium, visiting
from tests.dashboard.stories import WATCHED, Story, mutators


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    """A server that nobody has asked yet."""
    async with serving(tmp_path, mutators=mutators(), watched=WATCHED) as run:
        yield run


@pytest.fixture
async def alone(tmp_path: Path) -> AsyncIterator[Running]:
    """A server without a cluster."""
    async with serving(tmp_path, connected=False) as run:
        yield run


@pytest.fixture
def story(running: Running) -> Story:
    return Story(running)


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as found:
        yield found


@pytest.fixture
async def visitor(running: Running, browser: Browser) -> AsyncIterator[Visitor]:
    async with visiting(browser, running.service.ops_port) as found:
        yield found


@pytest.fixture
async def stranger(alone: Running, browser: Browser) -> AsyncIterator[Visitor]:
    """A visitor of the server without a cluster."""
    async with visiting(browser, alone.service.ops_port) as found:
        yield found
