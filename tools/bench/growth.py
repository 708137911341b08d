"""How a server's cost moves with the objects that it knows, and with what they live through."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families

from tools.bench.bodies import STATUS
from tools.bench.lives import CALM, CALM_FILL, STORM, STORM_FILL, STORM_OBJECTS
from tools.bench.load import CONNECTIONS as USUAL_CONNECTIONS
from tools.bench.load import Measured
from tools.bench.processes import resident_bytes
from tools.bench.running import Running
from tools.bench.scenarios import Context, run_job
from tools.bench.servers import QUIET_APPLICATION, Server

MOST_OBJECTS: Final = 100_000
_MB: Final = 1e6


@dataclass(frozen=True, slots=True)
class Step:
    """One measurement of a growth: what it is called, and what of the job is not as usual."""

    name: str
    job: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Growth:
    """A Scenario whose keys are `step/number`.

    key      its name in results.json
    along    what grows, as the table's first column says it
    numbers  what is measured at each step, of NUMBERS
    more     servers that are measured beside genguard
    to       servers that genguard's first number is shown as a ratio to
    rounds   how often as much as other tables: a ratio needs some
    """

    key: str
    title: str
    along: str
    legend: str
    steps: tuple[Step, ...]
    numbers: tuple[str, ...]
    more: tuple[Server, ...] = ()
    to: tuple[str, ...] = ()
    rounds: int = 1

    @property
    def keys(self) -> Sequence[str]:
        """See Scenario."""
        return [f"{step.name}/{number}" for step in self.steps for number in self.numbers]

    def measure(self, running: Running, context: Context) -> Mapping[str, float]:
        """See Scenario."""
        found = {}
        for step in self.steps:
            measured = run_job(running, context, **step.job)
            for number in self.numbers:
                found[f"{step.name}/{number}"] = NUMBERS[number](step, measured, running)
        return found


def _cpu_us(_: Step, measured: Measured, __: Running) -> float:
    return measured.cpu_us


def _rate(_: Step, measured: Measured, __: Running) -> float:
    return measured.requests / measured.seconds


def _rss_mb(_: Step, __: Measured, running: Running) -> float:
    return resident_bytes(running.pid) / _MB


def _remembered(_: Step, __: Measured, running: Running) -> float:
    return _metric(running, "genguard_detection_objects")


def _left_out(_: Step, __: Measured, running: Running) -> float:
    return _metric(running, "genguard_detection_dropped_total")


def _metric(running: Running, name: str) -> float:
    """What genguard says of itself."""
    families = text_string_to_metric_families(running.ops("/metrics"))
    return next(one.value for family in families for one in family.samples if one.name == name)


NUMBERS: Final = {
    "cpu_us": _cpu_us,
    "rate": _rate,
    "rss_mb": _rss_mb,
    "remembered": _remembered,
    "left_out": _left_out,
}

OBJECTS: Final = Growth(
    "objects",
    "Objects remembered",
    "objects",
    "genguard remembers the latest writes of each object to find loops. Status updates of "
    "8.9 KB, of each object in turn; each was written once before the measurement. Left out: "
    "reviews that there was no room to look into.",
    tuple(
        Step(f"{count:,}", {"objects": count, "reviews": STATUS, "fill": count})
        for count in (1, 1_000, 10_000, MOST_OBJECTS)
    ),
    ("cpu_us", "rss_mb", "remembered", "left_out"),
)
_LIVES: Final[Mapping[str, Mapping[str, Any]]] = {
    CALM: {"reviews": CALM, "fill": CALM_FILL},
    STORM: {"reviews": STORM, "fill": STORM_FILL},
}
LIVES: Final = Growth(
    "lives",
    "Calm and storm",
    "lives",
    f"With everything on, all three phases of each write, {USUAL_CONNECTIONS} connections; each "
    "plays one life after the other. Calm: recorded lives of rollouts and of pods, each time as "
    f"another object. Storm: {STORM_OBJECTS:,} objects that each repeat one status or spec "
    "transition, as fast as they are answered; each has repeated it before the measurement. x: of "
    "the processor time of a review. The Go webhook has one phase and examines pods: beside it "
    "genguard stands in the first table.",
    tuple(Step(name, job) for name, job in _LIVES.items()),
    ("cpu_us", "rate"),
    more=(QUIET_APPLICATION,),
    to=(QUIET_APPLICATION.name,),
    rounds=2,
)
GROWTHS: Final = (OBJECTS, LIVES)
