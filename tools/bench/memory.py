"""What 100,000 tracked objects take: `make memory`, each kind in a fresh process.

The memory of the process in RAM (RSS) before the first review and after the last, what detection
counts of it, and how many objects it still knows. Each object's writes come at once; by turns they
come so far apart that it rests and wakes in between. Some minutes.
"""

import argparse
import gc
import multiprocessing
import os
import sys
from collections.abc import Sequence
from typing import Final

from genguard.detection.detection import Detection
from tools.bench.processes import resident_bytes
from tools.bench.tracked import DEPLOYMENTS, PODS, Example, Reviews, follow

_MIB: Final = 1024 * 1024


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.memory", description=__doc__)
    parser.add_argument("--objects", type=int, default=100_000)
    flags = parser.parse_args(arguments)
    print(f"{'objects':24}{'writes':>12}{'RSS MiB':>10}{'counted':>10}{'known':>10}")
    for example, by_turns in ((PODS, False), (PODS, True), (DEPLOYMENTS, False)):
        process = multiprocessing.get_context("spawn").Process(
            target=_measure, args=(example, flags.objects, by_turns)
        )
        process.start()
        process.join()
    return 0


def _measure(example: Example, objects: int, by_turns: bool) -> None:
    reviews = Reviews(example)
    follow(Detection(), reviews, 10)  # whatever is made once
    detection = Detection()
    gc.collect()
    before = resident_bytes(os.getpid())
    follow(detection, reviews, objects, by_turns=by_turns)
    gc.collect()
    taken = (resident_bytes(os.getpid()) - before) / _MIB
    counted = detection.history.bytes / _MIB
    writes = f"{example.writes}{' by turns' if by_turns else ''}"
    print(
        f"{objects:9,} {example.resource:14}{writes:>12}{taken:10.1f}{counted:10.1f}"
        f"{len(detection.history):10,}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
