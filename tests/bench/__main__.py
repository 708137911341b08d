"""`make bench`: python -m tests.bench [--quick] [--json FILE] [--server NAME]...

Exits with 1 when a server did not start or any answer was wrong.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Final

from tests.bench.corpus import read_corpus
from tests.bench.generator import LoadFailedError
from tests.bench.load import CONNECTIONS
from tests.bench.machine import machine_facts
from tests.bench.report import document, heading, table
from tests.bench.rounds import run_rounds
from tests.bench.running import ServerFailedError
from tests.bench.scenarios import SCENARIOS, Effort, WrongAnswersError
from tests.bench.servers import SERVERS, servers_named

FULL: Final = Effort(repeats=7, seconds=1.5, warm_up=500)
QUICK: Final = Effort(repeats=2, seconds=0.5, warm_up=200)
_WIDTH: Final = 100
_LEGEND: Final = (
    "RSS MB: memory once the server accepts connections, and after all of this. Every number is "
    "the median of the rounds, ± half of what lies between the smallest and the largest."
)


def main(arguments: Sequence[str] | None = None, effort: Effort | None = None) -> int:
    """Measure and print; `effort` is for tests."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="rough numbers in under 20 s")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every number there")
    names = [server.name for server in SERVERS]
    parser.add_argument(
        "--server", action="append", default=[], choices=names, help="only these, and the floor"
    )
    flags = parser.parse_args(arguments)
    facts = machine_facts()
    print(heading(facts, read_corpus(), CONNECTIONS))
    servers = servers_named(flags.server)
    for server in servers:
        print(f"  {server.name}: {server.about}")
    try:
        samples = run_rounds(
            servers, SCENARIOS, effort or (QUICK if flags.quick else FULL), _progress
        )
    except (ServerFailedError, LoadFailedError, WrongAnswersError) as error:
        print(f"\n{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    print(f"\n{table(samples)}\n")
    for scenario in SCENARIOS:
        print(fill(scenario.legend, _WIDTH))
    print(fill(_LEGEND, _WIDTH))
    if flags.json is not None:
        flags.json.write_text(json.dumps(document(samples, facts), indent=1) + "\n")
    return 0


def _progress(text: str) -> None:
    print(f"  ... {text}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
