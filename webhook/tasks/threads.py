"""Threads for slow work, apart from those in which asyncio looks up names.

asyncio looks names up in its default executor, which has few threads (4 more than there are cores).
A lookup cannot be ended: whoever gives up waiting for a name server that is lost leaves a thread
behind, and work in the same threads would wait for that name server, large reviews first of all.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_THREADS: Final = ThreadPoolExecutor(max_workers=4, thread_name_prefix="genguard")
"""Large: a review, an observation, a save, and what Prometheus asks for: one of each at a time."""


async def in_thread(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a function in one of these threads; return or raise what it does."""
    call = partial(function, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_THREADS, call)
