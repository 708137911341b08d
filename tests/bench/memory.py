"""What 100,000 tracked objects take: `make memory`, each kind in a fresh process.

The memory of the process in RAM (RSS) before the first review and after the last, what detection
counts of it, and how many objects it still knows. Some minutes.
"""

import argparse
import gc
import multiprocessing
import os
import sys
from collections.abc import Sequence
from typing import Final

from tests.bench.processes import resident_bytes
from tests.bench.tracked import DEPLOYMENTS, PODS, Example, Reviews, follow
from webhook.detection.detection import Detection

_MIB: Final = 1024 * 1024


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.memory", description=__doc__)
    parser.add_argument("--objects", type=int, default=100_000)
    flags = parser.parse_args(arguments)
    print(f"{'objects':24}{'writes':>8}{'RSS MiB':>10}{'counted':>10}{'known':>10}")
    for example in (PODS, DEPLOYMENTS):
        process = multiprocessing.get_context("spawn").Process(
            target=_measure, args=(example, flags.objects)
        )
        process.start()
        process.join()
    return 0


def _measure(example: Example, objects: int) -> None:
    reviews = Reviews(example)
    follow(Detection(), reviews, 10)  # whatever is made once
    detection = Detection()
    gc.collect()
    before = resident_bytes(os.getpid())
    follow(detection, reviews, objects)
    gc.collect()
    taken = (resident_bytes(os.getpid()) - before) / _MIB
    counted = detection.history.bytes / _MIB
    print(
        f"{objects:9,} {example.resource:14}{example.writes:8}{taken:10.1f}{counted:10.1f}"
        f"{len(detection.history):10,}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
