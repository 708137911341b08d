"""Writes that change nothing, so that webhooks are called without waiting for somebody else.

An empty merge patch passes admission like any other, and as a dry run reaches every webhook, since
the API takes only those whose sideEffects are None or NoneOnDryRun.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from webhook.cluster.rest import MERGE_PATCH, UNREACHED, RefusedError, Rest
from webhook.trace.plan import Traced

_EVERY_SECONDS: Final = 0.5
_PARAMS: Final = {"dryRun": "All", "fieldManager": "genguard-trace"}


@asynccontextmanager
async def poking(rest: Rest, traced: Traced, tell: Callable[[str], None]) -> AsyncIterator[None]:
    """Patch the object and its status now and again; what refuses that is told once."""
    task = asyncio.create_task(_poke(rest, traced, tell))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _poke(rest: Rest, traced: Traced, tell: Callable[[str], None]) -> None:
    # Again and again: the API server takes a moment to know the observers.
    told = ""
    while True:
        for subresource in traced.subresources:
            path = traced.path(subresource)
            try:
                await rest.call("PATCH", path, {}, params=_PARAMS, content_type=MERGE_PATCH)
            except (RefusedError, *UNREACHED) as error:
                reason = f"--poke: {str(error) or type(error).__name__}"
                if reason != told:
                    tell(reason)
                told = reason
        await asyncio.sleep(_EVERY_SECONDS)
