"""All that a server remembers, filled from outside at once; `make memory-attack` takes longer."""

import asyncio
from collections.abc import Callable

from tests.contract.hoard import ATTACKS, Request
from tests.contract.service import http_post
from tests.contract.victim import Victim, victim

PATIENCE = 60.0

COUNTS = {
    "intents with long types": 800,
    "answers to long names": 1_000,
    "kinds with long names": 100,
    "versions with long names": 100,
    "leaves far down": 20,
    "writes without an end": 60,
    "findings with long fields": 100,
    "statuses with long types": 80,
    "fields side by side": 15,
    "very many values": 12,
    "objects with long names": 500,
}
"""Each takes 100 MiB or more where nothing counts its bytes, "leaves far down" 800."""


async def fill(run: Victim, attack: Callable[[int], list[Request]], count: int) -> set[int]:
    wire = await run.connect()
    seen = set()
    for number in range(count):
        for path, body in attack(number):
            await wire.send(http_post(body, f"{path}?timeout=30s"))
            seen.add((await wire.answer(PATIENCE)).status)
    await wire.close()
    return seen


async def test_all_that_is_remembered_at_once_stays_within_the_memory_of_the_pod(
    tmp_path, on_each_loop
):
    assert COUNTS.keys() == ATTACKS.keys()
    async with victim(tmp_path, on_each_loop) as run:
        filling = (fill(run, ATTACKS[name], count) for name, count in COUNTS.items())
        seen = set().union(*await asyncio.gather(*filling))
        assert 200 in seen
        assert seen <= {200, 429}
        assert await run.metric('genguard_remembered_dropped_total{what="intents"}') > 0
        assert await run.metric("genguard_detection_dropped_total") > 0
