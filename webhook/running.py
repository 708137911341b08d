"""Runs coroutines in the background of a context."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def running(work: Iterable[Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    """Run coroutines while the context is entered; at its end they are cancelled and awaited."""
    tasks = [asyncio.create_task(one) for one in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
