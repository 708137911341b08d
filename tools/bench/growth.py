"""How a server's cost moves when one thing grows: bodies, connections, objects."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families

from genguard.admission.review import Phase
from tools.bench.bodies import SIZES, STATUS
from tools.bench.lives import CALM, CALM_FILL, STORM, STORM_FILL, STORM_OBJECTS
from tools.bench.load import CONNECTIONS as USUAL_CONNECTIONS
from tools.bench.load import Measured
from tools.bench.processes import resident_bytes
from tools.bench.rounds import Samples
from tools.bench.running import Running
from tools.bench.scenarios import Context, Effort, percentile, run_job
from tools.bench.servers import FLOOR, GENGUARD, GO, QUIET_APPLICATION, Server

MOST_OBJECTS: Final = 100_000
_MB: Final = 1e6
_STEADY: Final = 1_000
_WRITES: Final = (10, 100, 1_000, 3_000)
_FEW_SECONDS: Final = 5.0
"""For the slowest of them, so that there are enough to tell a p99."""


@dataclass(frozen=True, slots=True)
class Step:
    """One measurement of a growth: what it is called, and what of the job is not as usual."""

    name: str
    job: Mapping[str, Any]
    kilobytes: float = 0.0


@dataclass(frozen=True, slots=True)
class Growth:
    """A Scenario whose keys are `step/number`.

    key      its name in results.json
    along    what grows, as the table's first column says it
    numbers  what is measured at each step, of NUMBERS
    servers  the names of those that are measured
    more     servers that are measured for this table alone
    to       servers that genguard's first number is shown as a ratio to
    rounds   how often as much as other tables: a ratio needs some
    run      measures all of it where steps are no jobs of the load process
    """

    key: str
    title: str
    along: str
    legend: str
    steps: tuple[Step, ...]
    numbers: tuple[str, ...]
    servers: tuple[str, ...] = (FLOOR, GENGUARD, GO)
    more: tuple[Server, ...] = ()
    to: tuple[str, ...] = ()
    rounds: int = 1
    run: Callable[[Effort, Callable[[str], None]], Samples] | None = None

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


def _us_per_kb(step: Step, measured: Measured, running: Running) -> float:
    return _cpu_us(step, measured, running) / step.kilobytes


def _rate(_: Step, measured: Measured, __: Running) -> float:
    return measured.requests / measured.seconds


def _cores(_: Step, measured: Measured, __: Running) -> float:
    return measured.cpu_seconds / measured.seconds


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


def _p50_ms(_: Step, measured: Measured, __: Running) -> float:
    return percentile(sorted(measured.latencies), 0.50) * 1e3


def _p99_ms(_: Step, measured: Measured, __: Running) -> float:
    return percentile(sorted(measured.latencies), 0.99) * 1e3


NUMBERS: Final = {
    "cpu_us": _cpu_us,
    "us_per_kb": _us_per_kb,
    "rate": _rate,
    "cores": _cores,
    "rss_mb": _rss_mb,
    "remembered": _remembered,
    "left_out": _left_out,
    "p50_ms": _p50_ms,
    "p99_ms": _p99_ms,
}

BODIES: Final = Growth(
    "bodies",
    "Bodies",
    "body",
    "A status update and a spec update of a pod in turn; half of a body is the old object. "
    "One connection. kopf and the plain webhook refuse more than 1 MiB.",
    tuple(
        Step(name, {"reviews": name, "connections": 1, "objects": 0}, size / 1e3)
        for name, size in SIZES.items()
    ),
    ("cpu_us", "us_per_kb"),
)
CONNECTIONS: Final = Growth(
    "connections",
    "Connections",
    "connections",
    "Recorded reviews as above. A new connection for each request costs a full TLS handshake "
    "with a P-256 certificate on top: the API server keeps 25 idle connections, so that a burst "
    "makes new ones. One after the other, so req/s says how long one takes.",
    (
        Step("a new one each time", {"connections": 1, "fresh": True}),
        *(Step(f"{count}", {"connections": count}) for count in (1, 16, 100, 500)),
    ),
    ("cpu_us", "rate"),
)
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
    (GENGUARD,),
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
    "the processor time of a review. The Go webhook has one phase and judges pods alone: beside it "
    "genguard stands in the first table.",
    tuple(Step(name, job) for name, job in _LIVES.items()),
    ("cpu_us", "rate"),
    (GENGUARD,),
    (QUIET_APPLICATION,),
    to=(QUIET_APPLICATION.name,),
    rounds=2,
)
PACED_LIVES: Final = Growth(
    "paced_lives",
    "Calm and storm at a steady rate",
    "lives",
    "The same lives, at random moments and so many reviews a second on average.",
    tuple(
        Step(f"{name} at {_STEADY:,}/s", {**job, "rate": float(_STEADY)})
        for name, job in _LIVES.items()
    ),
    ("p50_ms", "p99_ms"),
    (GENGUARD,),
    (QUIET_APPLICATION,),
)
WRITES: Final = Growth(
    "writes",
    "Writes a second",
    "writes/s",
    "Calm lives in all three phases, so that each write is three reviews. cores: processor time in "
    "each second, of one at most. With /outcome alone it is a third of the reviews.",
    tuple(
        Step(
            f"{count:,}",
            {
                "reviews": CALM,
                "fill": CALM_FILL if count == _WRITES[0] else 0,
                "rate": float(count * len(Phase)),
                "seconds": _FEW_SECONDS if count == _WRITES[0] else 1.0,
            },
        )
        for count in _WRITES
    ),
    ("cores", "p50_ms", "p99_ms"),
    (GENGUARD,),
)
BY_JOBS: Final = (BODIES, CONNECTIONS, OBJECTS, WRITES, LIVES, PACED_LIVES)
