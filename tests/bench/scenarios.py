"""What is done to a server, and the columns that come of it.

Another scenario - writes through a real API server, bigger bodies - is a class with the members
of Scenario and a row in SCENARIOS.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from tests.bench.generator import Generator
from tests.bench.load import Job, Measured
from tests.bench.running import Running
from tests.bench.servers import CONSTANT_UID, Answers

OPEN_RATE: Final = 500.0


class Column(NamedTuple):
    """One number of a server: what it is called, and how it is shown."""

    key: str
    title: str
    digits: int = 1
    compared: bool = False  # the ratio to the floor is shown beside it


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is done: repeats of everything, seconds of each scenario, requests to warm up."""

    repeats: int
    seconds: float
    warm_up: int


class Context(NamedTuple):
    """What a scenario works with."""

    generator: Generator
    folder: Path
    effort: Effort


class WrongAnswersError(Exception):
    """A server answered wrong under load; the message shows the first answers."""


class Scenario(Protocol):
    """One way to use a server."""

    @property
    def name(self) -> str:
        """As `--scenario` takes it."""

    @property
    def legend(self) -> str:
        """What the columns mean."""

    @property
    def columns(self) -> Sequence[Column]:
        """What `measure` returns, in the order in which it is shown."""

    def measure(self, running: Running, context: Context) -> Mapping[str, float]:
        """A number for each column. Raises LoadFailedError and WrongAnswersError."""


class ClosedLoop:
    """Every connection asks again as soon as it is answered: cost, and the most that is served."""

    name = "closed"
    columns = (
        Column("cpu_us", "CPU us", compared=True),
        Column("rate", "req/s", digits=0),
        Column("busy", "busy %", digits=0),
        Column("load_us", "load us"),
    )
    legend = (
        "CPU us: user and system time of the server for each request, 16 connections asking at "
        "once; x floor: the median of the rounds' ratios; req/s and busy %: how many that makes, "
        "and how much of a core; load us: what the load generator spends on each, on another core"
    )

    def measure(self, running: Running, context: Context) -> Mapping[str, float]:
        """See Scenario."""
        found = _run(running, context, rate=0.0)
        return {
            "cpu_us": found.cpu_seconds / found.requests * 1e6,
            "rate": found.requests / found.seconds,
            "busy": found.cpu_seconds / found.seconds * 1e2,
            "load_us": found.own_seconds / found.requests * 1e6,
        }


class OpenLoop:
    """Requests come at a steady rate, whatever the server does: how long an answer takes."""

    name = "open"
    columns = (
        Column("p50_ms", "p50 ms", digits=2),
        Column("p99_ms", "p99 ms", digits=2),
        Column("open_cpu_us", "CPU us'", compared=True),
    )
    legend = (
        f"p50 and p99 ms: from when a request was due to the end of its answer, {OPEN_RATE:.0f} "
        "requests a second at random moments; CPU us': what one costs then, when every request "
        "wakes the server up"
    )

    def measure(self, running: Running, context: Context) -> Mapping[str, float]:
        """See Scenario."""
        found = _run(running, context, rate=OPEN_RATE)
        latencies = sorted(found.latencies)
        return {
            "p50_ms": percentile(latencies, 0.50) * 1e3,
            "p99_ms": percentile(latencies, 0.99) * 1e3,
            "open_cpu_us": found.cpu_seconds / found.requests * 1e6,
        }


def _run(running: Running, context: Context, rate: float) -> Measured:
    server, effort = running.server, context.effort
    job = Job(
        port=running.port,
        pid=running.pid,
        folder=str(context.folder),
        path=server.path,
        seconds=effort.seconds,
        warm_up=effort.warm_up,
        rate=rate,
        constant_uid=CONSTANT_UID if server.answers is Answers.CONSTANT else "",
    )
    found = context.generator.measure(job)
    if found.wrong:
        raise WrongAnswersError(f"{server.name}: {'; '.join(found.wrong)}")
    return found


def percentile(ordered: Sequence[float], share: float) -> float:
    """The nearest-rank percentile of values in ascending order."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


SCENARIOS: Final[tuple[Scenario, ...]] = (ClosedLoop(), OpenLoop())
