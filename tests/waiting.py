"""How tests wait for what is only late: two minutes, since the slowest machine is busy as well.

`wait_until` in `controlplane/client.py` waits in a thread, `until` on an event loop. A test that
needs another clock gets one as an argument; `architecture/test_waiting.py` finds short waits.
"""

import asyncio
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Final

PATIENCE: Final = 120.0
"""Seconds. Only a fault lasts longer, so the number costs nothing where all is well."""
_FIRST, _LONGEST = 0.001, 0.25


def patiently() -> asyncio.Timeout:
    """`async with` it: what is inside may be late."""
    return asyncio.timeout(PATIENCE)


async def until(true: Callable[[], object | Awaitable[object]], what: str = "") -> None:
    """Call until the answer is true, first often and then four times a second."""
    pause, end = _FIRST, asyncio.get_running_loop().time() + PATIENCE
    while True:
        answer = true()
        if isawaitable(answer):
            answer = await answer
        if answer:
            return
        if asyncio.get_running_loop().time() >= end:
            raise TimeoutError(f"{what or true} not true within {PATIENCE:g} s")
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST)
