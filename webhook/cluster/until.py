"""Repeats a check of a cluster until nothing is missing, or the time is up."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from webhook.cluster.rest import UNREACHED, RefusedError

_EVERY_SECONDS: Final = 0.3


class NotInTimeError(Exception):
    """Something is still missing; the message says what, and what to do."""


async def until(
    check: Callable[[], Awaitable[str]], seconds: float, *, next_step: str = ""
) -> None:
    """Repeat `check`, which returns what is missing, until it returns "".

    An API server that is not reached, or is overloaded, is waited for as well. Raises
    NotInTimeError, or RefusedError.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            missing = await check()
        except UNREACHED as error:
            missing = f"the API server is not reached: {str(error) or type(error).__name__}"
        except RefusedError as error:
            if not error.is_passing:
                raise
            missing = str(error)
        if not missing:
            return
        if time.monotonic() >= end:
            message = f"after {seconds:g} s: {missing}"
            raise NotInTimeError(f"{message}. {next_step}" if next_step else message)
        await asyncio.sleep(_EVERY_SECONDS)
