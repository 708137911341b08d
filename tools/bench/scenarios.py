"""What is done to a server, and the numbers that come of it.

Another scenario is a class with the members of Scenario and a row in SCENARIOS.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from tools.bench.generator import Generator
from tools.bench.load import BURST, CONNECTIONS, Job, Measured
from tools.bench.running import Running
from tools.bench.servers import CONSTANT_UID, Answers

OBJECTS: Final = 1_000
"""What is asked is about so many of each recorded object, in turn: an object that is written again
and again is a loop, which detection looks at more closely than at a cluster's daily work."""
_LONGER: Final = 3
"""At a steady rate: of 600 answers the slowest 1 % are six, which two pauses make."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is done: repeats of everything, seconds of each measurement and before it.

    patient  whether to wait for work that a server puts aside, so that all of it is counted
    """

    repeats: int
    seconds: float
    warm_up: float
    patient: bool = True


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
    def keys(self) -> Sequence[str]:
        """What `measure` has numbers for."""

    @property
    def legend(self) -> str:
        """What the numbers mean."""

    def measure(self, running: Running, context: Context) -> Mapping[str, float]:
        """A number for each key. Raises LoadFailedError and WrongAnswersError."""


class ClosedLoop:
    """Every connection asks again as soon as it is answered: cost, and the most that is served."""

    keys = ("cpu_us", "rate", "load_us")
    legend = (
        f"CPU µs and req/s: {CONNECTIONS} connections that each ask again as soon as they are "
        f"answered, at most {BURST:,} times. User and system time of the server for each request, "
        "with all that it does after the answer (genguard: detection); and how many it answers in "
        f"a second. At /mutate, each review about {OBJECTS:,} objects in turn; calm and storm in "
        "all phases stand below"
    )

    def measure(self, running: Running, context: Context) -> Mapping[str, float]:
        """See Scenario."""
        found = run_job(running, context)
        return {
            "cpu_us": found.cpu_us,
            "rate": found.requests / found.seconds,
            "load_us": found.own_seconds / found.requests * 1e6,
        }


@dataclass(frozen=True, slots=True)
class OpenLoop:
    """Requests come at a steady rate, whatever the server does: how long an answer takes."""

    rate: int

    @property
    def keys(self) -> Sequence[str]:
        """See Scenario."""
        return (f"p50_ms_{self.rate}", f"p99_ms_{self.rate}", f"cpu_us_{self.rate}")

    @property
    def legend(self) -> str:
        """See Scenario."""
        return (
            "ms at 500/s and 1,000/s: half of the answers, and 99 % of them, come within. Requests "
            "come at random moments, as many a second on average, and the time counts from when "
            "one was due: what a slow answer does to those behind it shows (coordinated omission "
            "is corrected)"
        )

    def measure(self, running: Running, context: Context) -> Mapping[str, float]:
        """See Scenario."""
        seconds = context.effort.seconds * _LONGER
        found = run_job(running, context, rate=float(self.rate), seconds=seconds)
        latencies = sorted(found.latencies)
        p50, p99 = (percentile(latencies, share) * 1e3 for share in (0.50, 0.99))
        numbers = (p50, p99, found.cpu_us)
        return dict(zip(self.keys, numbers, strict=True))


def run_job(running: Running, context: Context, **changed: Any) -> Measured:
    """Have the generator do a job; `changed` are fields of Job that differ from the usual ones.

    Raises LoadFailedError and WrongAnswersError.
    """
    server, effort = running.server, context.effort
    puts_aside = server.puts_aside if effort.patient else 0.0
    job = Job(
        port=running.port,
        pid=running.pid,
        folder=str(context.folder),
        path=server.path,
        seconds=effort.seconds,
        # At a steady rate what was put aside then comes back as fast as more is put aside.
        warm_up=max(effort.warm_up, puts_aside),
        objects=OBJECTS,
        puts_aside=puts_aside,
        by_phase=server.by_phase,
        constant_uid=CONSTANT_UID if server.answers is Answers.CONSTANT else "",
    )
    found = context.generator.measure(msgspec.structs.replace(job, **changed))
    if found.wrong:
        raise WrongAnswersError(f"{server.name}: {'; '.join(found.wrong)}")
    return found


def percentile(ordered: Sequence[float], share: float) -> float:
    """The nearest-rank percentile of values in ascending order."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


OPEN_RATES: Final = (500, 1_000)
SCENARIOS: Final[tuple[Scenario, ...]] = (ClosedLoop(), *map(OpenLoop, OPEN_RATES))
