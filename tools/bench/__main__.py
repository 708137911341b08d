"""`make bench`: everything measured, side by side, and told; `--help` says what else there is.

Without a flag it measures everything and writes RESULTS.md and results.json beside this file, and
the tables in docs/performance.md and docs/decide.md. Exits with 1 when a server did not start or an
answer was wrong.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from textwrap import fill
from typing import Final

from tests.controlplane.plane import ControlPlane
from tools.bench.corpus import mean_bytes, read_corpus
from tools.bench.generator import LoadFailedError
from tools.bench.growth import GROWTHS, Growth
from tools.bench.load import CONNECTIONS
from tools.bench.machine import commit, machine_details
from tools.bench.publish import publish, write_pages
from tools.bench.report import (
    compared_table,
    growth_table,
    heading,
    legend,
    main_table,
    start_table,
    through_table,
)
from tools.bench.results import FOLDER, Results
from tools.bench.rounds import Samples, run_rounds
from tools.bench.running import ServerFailedError
from tools.bench.scenarios import SCENARIOS, Effort, WrongAnswersError
from tools.bench.servers import GENGUARD, SERVERS, Server, servers_named
from tools.bench.start import LEGEND as START_LEGEND
from tools.bench.start import run_start
from tools.bench.through import COMPARED_LEGEND, LEGEND, run_through

_WIDTH: Final = 100


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is done of what; None: not at all."""

    servers: Effort | None = None
    growth: Effort | None = None
    through: Effort | None = None
    start: Effort | None = None


FULL: Final = Plan(
    servers=Effort(repeats=3, seconds=1.2, warm_up=0.5),
    growth=Effort(repeats=1, seconds=1.0, warm_up=0.5),
    through=Effort(repeats=5, seconds=1.5, warm_up=0.5),
    start=Effort(repeats=10, seconds=0.0, warm_up=0.0),
)
QUICK: Final = Plan(servers=Effort(repeats=1, seconds=0.5, warm_up=0.5))


def main(arguments: Sequence[str] | None = None, plan: Plan | None = None) -> int:
    """Measure and print; `plan` is for tests."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="rough numbers in 40 s, not kept")
    parts = [field.name for field in fields(Plan)]
    parser.add_argument("--only", choices=parts, help="measure this alone, not kept")
    names = [server.name for server in SERVERS]
    parser.add_argument(
        "--server", action="append", default=[], choices=names, help="only these, and the floor"
    )
    keys = [one.key for one in GROWTHS]
    parser.add_argument("--growth", choices=keys, help="measure this table alone, not kept")
    parser.add_argument("--into", type=Path, metavar="FOLDER", help="write the files there")
    flags = parser.parse_args(arguments)
    try:
        wanted = plan or (QUICK if flags.quick or flags.server else FULL)
        if flags.only:
            wanted = Plan(**{flags.only: getattr(FULL, flags.only)})
        growths = GROWTHS
        if flags.growth:
            growths = tuple(one for one in GROWTHS if one.key == flags.growth)
            wanted = Plan(growth=QUICK.servers if flags.quick else FULL.growth)
        results = _measured(servers_named(flags.server), wanted, growths)
    except (ServerFailedError, LoadFailedError, WrongAnswersError) as error:
        print(f"\n{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    print("\n\n".join(_told(results)))
    into = flags.into or (FOLDER if wanted is FULL else None)
    if into is not None:
        kept = publish(results, into)
        if into == FOLDER:
            write_pages(kept)
    return 0


def _measured(servers: Sequence[Server], plan: Plan, growths: Sequence[Growth]) -> Results:
    corpus = read_corpus()
    sizes = [len(one.body) / 1e3 for one in corpus]
    details = machine_details()
    measured: Samples = {}
    if plan.servers is not None:
        measured = run_rounds(servers, SCENARIOS, plan.servers, _progress)
    growth: dict[str, Samples] = {}
    if plan.growth is not None:
        for one in growths:
            _progress(f"growth: {one.title}")
            effort = replace(plan.growth, repeats=plan.growth.repeats * one.rounds)
            chosen = [*one.more, *(server for server in servers if server.name == GENGUARD)]
            growth[one.key] = run_rounds(chosen, (one,), effort, _progress)
    through: Samples = {}
    if plan.through is not None:
        with ControlPlane() as plane:
            through = run_through(plane, plan.through, _progress)
    start: Samples = {}
    if plan.start is not None:
        with ControlPlane() as plane:
            start = run_start(plane.kubeconfig, plan.start, _progress)
    return Results(
        date=datetime.now(UTC).date().isoformat(),
        machine=dict(details),
        reviews=f"{len(corpus)} recorded pod reviews of {min(sizes):.1f} to {max(sizes):.1f} KB, "
        f"mean {mean_bytes(corpus) / 1e3:.1f}; {CONNECTIONS} keep-alive TLS connections",
        servers=measured,
        growth=growth,
        through=through,
        start=start,
        commit=commit(),
    )


def _told(results: Results) -> Iterator[str]:
    yield heading(results)
    if results.servers:
        yield main_table(results)
    yield "\n".join(fill(line, _WIDTH) for line in legend(results.servers))
    for one in GROWTHS:
        if one.key in results.growth:
            yield fill(f"{one.title}: {one.legend}", _WIDTH)
            yield growth_table(one, results)
    if results.through:
        yield fill(f"Through the API server: {LEGEND}", _WIDTH)
        yield through_table(results)
        yield fill(COMPARED_LEGEND, _WIDTH)
        yield compared_table(results)
    if results.start:
        yield fill(f"Start of a command: {START_LEGEND}", _WIDTH)
        yield start_table(results)


def _progress(text: str) -> None:
    print(f"  ... {text}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
