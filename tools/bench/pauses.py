"""`python -m tools.bench.pauses`: how long a large review keeps all others waiting.

The longest times for which the event loop of a server did not come to what was due each
millisecond, while a client in another process sends reviews of 3 MiB one after the other: judged
at once on the loop, and judged in a thread as `genguard serve` does. Of dry runs nothing is left
to do after the answer; of the other reviews detection is, on the loop.
"""

import argparse
import asyncio
import gc
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from genguard.review_setup import GenerationPatch, ReviewOptions
from tests.contract.service import serving
from tools.bench.bodies import JUDGED_ALONE, REORDERED
from tools.bench.generator import Generator
from tools.bench.load import Job, Measured
from tools.bench.scenarios import percentile
from webhook.server.options import Limits

_AT_ONCE: Final = Limits(large_from=sys.maxsize, large_values=sys.maxsize, answer_seconds=60.0)
_IN_A_THREAD: Final = Limits(answer_seconds=60.0)
_EVERY: Final = 0.001
_LONGEST: Final = 10


class Pauses(NamedTuple):
    """Seconds: the longest pause, the middle one of the ten longest, and half of the answers."""

    longest: float
    usual: float
    answer: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.pauses", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement [3]")
    flags = parser.parse_args(arguments)
    print(f"{'review':20}{'judged':>14}{'longest ms':>12}{'usual ms':>10}{'answer ms':>11}")
    for reviews in (JUDGED_ALONE, REORDERED):
        found = []
        for judged, limits in (("at once", _AT_ONCE), ("in a thread", _IN_A_THREAD)):
            one = asyncio.run(measure(reviews, limits, flags.seconds))
            cells = f"{one.longest * 1e3:12.1f}{one.usual * 1e3:10.1f}{one.answer * 1e3:11.1f}"
            print(f"{reviews:20}{judged:>14}{cells}", flush=True)
            found.append(one)
        before, after = found
        ratios = (after.longest / before.longest, after.usual / before.usual)
        print(f"{'':20}{'ratio':>14}{ratios[0]:12.2f}{ratios[1]:10.2f}")
    return 0


async def measure(reviews: str, limits: Limits, seconds: float) -> Pauses:
    """One server, in this process, and one client."""
    options = ReviewOptions(generation_patch=GenerationPatch.ALWAYS)
    pauses: list[float] = []
    with tempfile.TemporaryDirectory() as name, Generator() as generator:
        async with serving(Path(name), options=options, limits=limits) as run:
            job = Job(
                port=run.service.secure_port,
                pid=os.getpid(),
                folder=name,
                path="/mutate",
                seconds=seconds,
                warm_up=0.2,
                connections=1,
                reviews=reviews,
            )
            gc.collect()
            gc.freeze()
            ticking = asyncio.create_task(_tick(pauses))
            found: Measured = await asyncio.to_thread(generator.measure, job)
            ticking.cancel()
            with suppress(asyncio.CancelledError):
                await ticking
            gc.unfreeze()
    longest = sorted(pauses)[-_LONGEST:]
    return Pauses(longest[-1], longest[_LONGEST // 2], percentile(sorted(found.latencies), 0.5))


async def _tick(pauses: list[float]) -> None:
    before = time.perf_counter()
    while True:
        await asyncio.sleep(_EVERY)
        now = time.perf_counter()
        pauses.append(now - before - _EVERY)
        before = now


if __name__ == "__main__":
    sys.exit(main())
