"""What `serve` runs on: uvloop's event loop where it is installed, or asyncio's own."""

import asyncio
from collections.abc import Callable
from typing import Final

import click

EVENT_LOOPS: Final = ("asyncio", "uvloop")
AUTO: Final = "auto"


def loop_factory(name: str) -> Callable[[], asyncio.AbstractEventLoop]:
    """For asyncio.Runner; `name` is AUTO or one of EVENT_LOOPS. Raises click.UsageError."""
    if name == "asyncio":
        return asyncio.new_event_loop
    try:
        from uvloop import new_event_loop  # noqa: PLC0415 - an extra, and 2 MiB
    except ImportError:
        if name == AUTO:
            return asyncio.new_event_loop
        raise click.UsageError(
            "--event-loop uvloop: it is not installed; pip install 'genguard[uvloop]'"
        ) from None
    return new_event_loop
