"""How late the event loop is."""

import asyncio
import time

from webhook.server.lag import LoopLag


async def test_a_loop_that_is_held_is_late_and_that_is_remembered():
    lag = LoopLag()
    await asyncio.sleep(0.1)
    time.sleep(0.4)
    await asyncio.sleep(0.2)
    assert lag.longest() >= 0.3
    lag.stop()


async def test_nothing_was_late_before_the_first_look():
    lag = LoopLag()
    assert lag.longest() == 0.0
    lag.stop()
