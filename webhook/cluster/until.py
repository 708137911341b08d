"""Looks again and again until there is nothing missing, or time is over."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from webhook.cluster.rest import UNREACHED, RefusedError

_EVERY_SECONDS: Final = 0.3


class NotInTimeError(Exception):
    """Something is still missing; the message says what, and what to do."""


async def until(look: Callable[[], Awaitable[str]], seconds: float, *, next_step: str = "") -> None:
    """Wait until `look` gives "", not what is missing.

    An API server that is not reached, or that will answer soon, is waited for as well. Raises
    NotInTimeError, or RefusedError.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            missing = await look()
        except UNREACHED as error:
            missing = f"the API server is not reached: {str(error) or type(error).__name__}"
        except RefusedError as error:
            if not error.is_passing:
                raise
            missing = str(error)
        if not missing:
            return
        if time.monotonic() >= end:
            told = f"after {seconds:g} s: {missing}"
            raise NotInTimeError(f"{told}. {next_step}" if next_step else told)
        await asyncio.sleep(_EVERY_SECONDS)
