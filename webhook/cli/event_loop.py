"""What `serve` runs on: asyncio's own event loop, or uvloop's where it is installed."""

import asyncio
from collections.abc import Callable
from typing import Final

import click

_UVLOOP: Final = "uvloop"
EVENT_LOOPS: Final = ("asyncio", _UVLOOP)


def loop_factory(name: str) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """For asyncio.Runner; `name` is one of EVENT_LOOPS. Raises click.UsageError."""
    if name != _UVLOOP:
        return None
    try:
        from uvloop import new_event_loop  # noqa: PLC0415 - an extra, and 2 MiB
    except ImportError:
        raise click.UsageError(
            "--event-loop uvloop: it is not installed; pip install 'genguard[uvloop]'"
        ) from None
    return new_event_loop
