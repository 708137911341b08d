"""`python -m tools.bench.dashboard`: how long pages take with 10,000 findings, 100,000 objects.

Wall and processor time of each page, asked for over HTTP of a server in this process, and how late
the event loop was at most meanwhile: that is what an admission would have waited for.
"""

import asyncio
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.contract.service import Running, serving
from tests.dashboard.crowd import FINDINGS, OBJECTS, crowd
from tests.dashboard.stories import suspects
from tools.bench.machine import machine_facts

PAGES = (
    "/",
    "/?q=web-77&state=all",
    "/?page=50",
    "/?namespace=team-7&severity=warning",
    "/objects",
    "/objects?q=thing-777",
    "/objects?health=Yellow&namespace=team-7",
    "/object?group=apps&resource=deployments&uid=uid-400&name=thing-400",
    "/webhooks",
    "/terminating",
    "/api/objects?limit=100",
    "/api/findings?limit=100",
    "/api/findings",
)
TIMES = 9
WANTED = 0.2


class Took(NamedTuple):
    """Seconds."""

    wall: float
    cpu: float
    late: float
    bytes: int


async def lateness(found: list[float]) -> None:
    """How late this loop calls what is due each millisecond."""
    clock = asyncio.get_running_loop().time
    while True:
        due = clock() + 0.001
        await asyncio.sleep(0.001)
        found.append(clock() - due)


async def measure(run: Running, path: str) -> list[Took]:
    """The page, several times."""
    found = []
    for _ in range(TIMES):
        late: list[float] = []
        watching = asyncio.create_task(lateness(late))
        wall, cpu = time.perf_counter(), time.process_time()
        answer = await run.ops(path)
        found.append(
            Took(
                time.perf_counter() - wall,
                time.process_time() - cpu,
                max(late, default=0.0),
                len(answer.body),
            )
        )
        assert answer.status == 200, answer.body
        watching.cancel()
    return sorted(found)


async def main() -> None:
    """Fill a server, ask for each page, print a line for each."""
    print(machine_facts())
    print(f"{FINDINGS:,} findings, {OBJECTS:,} objects; the middle and the worst of {TIMES}, in ms")
    print(f"{'page':68} {'wall':>6} {'worst':>6} {'cpu':>6} {'late':>6} {'KiB':>6}")
    with tempfile.TemporaryDirectory() as folder:
        async with serving(Path(folder), suspects=suspects()) as run:
            crowd(run)
            for path in PAGES:
                found = await measure(run, path)
                middle = found[len(found) // 2]
                late = sorted(one.late for one in found)[len(found) // 2]
                print(
                    f"{path:68} {middle.wall * 1e3:6.0f} {found[-1].wall * 1e3:6.0f} "
                    f"{middle.cpu * 1e3:6.0f} {late * 1e3:6.1f} {middle.bytes / 1024:6.0f}"
                    f"{'' if middle.wall <= WANTED else '  over 200 ms'}"
                )


if __name__ == "__main__":
    asyncio.run(main())
