"""`make soak`: an hour of load and trouble, and whether the server has grown by it.

python -m tools.soak [--minutes 60] [--rate 300] [--objects 110000]

Exits with 1, and says why, when memory grows by more than a MiB an hour, when descriptors or
metric series grow, when /metrics is larger than 200 KB, or when an answer was wrong.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from tools.soak.report import report, too_much
from tools.soak.soak import Plan, soak

OBJECTS: Final = 110_000
"""More than detection remembers (genguard/detection/history.py: MOST_OBJECTS)."""
FILLS: Final = 3
"""What takes the place of the first that were remembered is of other sizes: the heap grows by a
twentieth until it was used one and a half times over, and then no more."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Soak, print."""
    parser = argparse.ArgumentParser(prog="python -m tools.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="after warming up [60]")
    parser.add_argument("--rate", type=int, default=300, help="reviews a second [300]")
    parser.add_argument("--objects", type=int, default=OBJECTS)
    flags = parser.parse_args(arguments)
    plan = Plan(
        seconds=flags.minutes * 60.0,
        rate=flags.rate,
        objects=flags.objects,
        period=300.0,
        sample=10.0,
        fills=FILLS,
    )
    found = soak(plan)
    print(report(found))
    grown = too_much(found)
    for reason in grown:
        print(f"FAIL: {reason}")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
