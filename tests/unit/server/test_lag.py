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


async def test_what_is_read_after_a_pause_may_have_come_at_its_beginning():
    lag = LoopLag()
    await asyncio.sleep(0.1)
    begun = time.monotonic()
    assert begun - lag.before_last < 0.2, "in time it is hardly ago"
    time.sleep(0.4)
    assert lag.before_last <= begun
    while lag.longest() < 0.3:  # a look that comes before what is read
        await asyncio.sleep(0)
    assert lag.before_last <= begun + 0.1
    lag.stop()
