"""All that a server remembers, filled from outside at once."""

import asyncio
from collections import Counter
from collections.abc import Iterator

from tests.contract.hoard import ATTACKS, Request
from tests.contract.victim import victim

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
"""Most take 50 MiB and more where nothing counts their bytes, "leaves far down" 800."""


def _requests(name: str) -> Iterator[Request]:
    for number in range(COUNTS[name]):
        yield from ATTACKS[name](number)


async def test_all_that_is_remembered_at_once_stays_within_the_memory_of_the_pod(
    tmp_path, on_each_loop
):
    assert COUNTS.keys() == ATTACKS.keys()
    async with victim(tmp_path) as run:
        filling = [run.statuses(_requests(name)) for name in COUNTS]
        seen: Counter[int] = sum(await asyncio.gather(*filling), Counter())
        assert seen[200] > sum(COUNTS.values()) / 2
        assert seen.keys() <= {0, 200, 408, 429}
        assert await run.metric("genguard_detection_dropped_total") > 0
