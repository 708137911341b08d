"""Work in threads of our own."""

import asyncio
import threading

import pytest

from webhook.tasks.threads import in_thread


async def test_it_does_not_wait_for_lookups_that_hang():
    names = threading.Event()
    loop = asyncio.get_running_loop()
    lookups = [loop.run_in_executor(None, names.wait) for _ in range(40)]  # 32 run at most
    try:
        assert await in_thread(pow, 2, 3) == 8
    finally:
        names.set()
        await asyncio.gather(*lookups)


async def test_what_is_raised_is_raised():
    with pytest.raises(ZeroDivisionError):
        await in_thread(divmod, 1, 0)
