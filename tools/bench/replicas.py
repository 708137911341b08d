"""Three replicas with a shared store under load: `make replicas`, half a minute.

Every write's three reviews reach whatever replica is free. Printed: how late the facts of all
replicas reached the leader, and the processor time that a review takes of each replica. `make
bench` has a table of it for one, two and four.
"""

import argparse
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from statistics import median
from typing import Final, NamedTuple

from tests.controlplane.client import wait_until
from tests.controlplane.plane import ControlPlane
from tests.store.replica import Replica
from tests.store.server import StoreServer
from tools.bench.connection import Connection
from tools.bench.glance import Glance
from tools.bench.growth import Growth, Step
from tools.bench.lives import CALM, LIVES
from tools.bench.loops import open_loop
from tools.bench.processes import cpu_seconds
from tools.bench.rounds import Samples
from tools.bench.running import client_context, free_port
from tools.bench.scenarios import Effort, WrongAnswersError, percentile
from tools.bench.servers import GENGUARD

_REPLICAS: Final = 3
COUNTS: Final = (1, 2, 4)
_GROWTH_RATE: Final = 1_000.0
"""Reviews a second in all: a rate that a machine of two cores has time for."""
_CONNECTIONS: Final = 8
"""To each replica."""
_LOOK_SECONDS: Final = 0.1
_FACTS: Final = "genguard_store_facts_total"
_MOST_LAG_SECONDS: Final = 1.0
_MOST_SHARE: Final = 0.6
_LONGER: Final = 5


class Look(NamedTuple):
    """How many facts the replicas have sent by a time, and how many the leader has read."""

    at: float
    sent: float
    read: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print; 1 where facts are late or followers cost too much."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.replicas", description=__doc__)
    parser.add_argument("--rate", type=float, default=3_000.0, help="reviews a second in all")
    parser.add_argument("--seconds", type=float, default=20.0)
    flags = parser.parse_args(arguments)
    found = measured(_REPLICAS, flags.rate, flags.seconds)
    print(f"{found.rate:,.0f} reviews/s, {len(found.wrong)} wrong answers")
    print(f"the leader {found.leader_us:6.0f} us of processor time a review")
    for cost in found.other_us:
        print(f"another    {cost:6.0f} us")
    print(f"{found.dropped:.0f} reviews not seen")
    share = max(found.other_us) / found.leader_us
    late = found.late_seconds
    print(f"facts reached the leader within {late:.1f} s; at most {_MOST_LAG_SECONDS:g} is wanted")
    print(f"the others take {share:.0%} of the leader's processor time; at most {_MOST_SHARE:.0%}")
    return int(bool(found.wrong) or late > _MOST_LAG_SECONDS or share > _MOST_SHARE)


def run_replicas(effort: Effort, say: Callable[[str], None]) -> Samples:
    """Measure each number of replicas under the same load."""
    samples: dict[str, list[float]] = {}
    for count in COUNTS * effort.repeats:
        say(f"{count} replicas")
        found = measured(count, _GROWTH_RATE, _LONGER * effort.seconds)
        if found.wrong:
            raise WrongAnswersError(f"{count} replicas: {'; '.join(found.wrong)}")
        numbers = {
            "cpu_us": found.leader_us,
            "p99_ms": found.p99_ms,
            "late_s": found.late_seconds,
        }
        if found.other_us:
            numbers["other_us"] = median(found.other_us)
        for key, value in numbers.items():
            samples.setdefault(f"{count}/{key}", []).append(value)
    return {GENGUARD: samples}


REPLICAS: Final = Growth(
    "replicas",
    "Replicas that answer",
    "replicas",
    f"Calm lives at {_GROWTH_RATE:,.0f} reviews/s in all, each review to whatever replica is free, "
    "with a shared Valkey. CPU µs of a review, of the leader, which detects for all, and of the "
    "others; how late facts of all replicas reached the leader. They share the machine with the "
    "load: this shows what each adds, not how much more they answer.",
    tuple(Step(f"{count}", {}) for count in COUNTS),
    ("cpu_us", "other_us", "p99_ms", "late_s"),
    (GENGUARD,),
    run=run_replicas,
)


class Found(NamedTuple):
    """What replicas took: of a review, the leader and each of the others."""

    rate: float
    leader_us: float
    other_us: list[float]
    p99_ms: float
    late_seconds: float
    dropped: float
    wrong: list[str]


def measured(count: int, rate: float, seconds: float) -> Found:
    """Start a store and so many replicas, and load them."""
    with ExitStack() as stack:
        port = free_port()
        stack.enter_context(StoreServer(port))
        plane = stack.enter_context(ControlPlane())
        flags = f"--store=valkey://127.0.0.1:{port}/0", f"--kubeconfig={plane.kubeconfig}"
        replicas = [stack.enter_context(Replica(*flags)) for _ in range(count)]
        leader = _leader(replicas)
        return _measure(replicas, leader, rate, seconds)


def _leader(replicas: Sequence[Replica]) -> Replica:
    def leading() -> list[Replica]:
        return [one for one in replicas if one.metric("genguard_leader") == 1]

    wait_until(lambda: all(one.has_store for one in replicas), what="shared")
    wait_until(lambda: len(leading()) == 1, what="one leader")
    (leader,) = leading()
    return leader


def _measure(replicas: Sequence[Replica], leader: Replica, rate: float, seconds: float) -> Found:
    requests = LIVES[CALM](lambda phase: f"/{phase}")
    with ExitStack() as opened:
        connections = [
            opened.enter_context(
                closing(Connection(one.admission_port, client_context(one.folder / "certs")))
            )
            for _ in range(_CONNECTIONS)
            for one in replicas
        ]
        open_loop(connections, requests, Glance(), rate=rate, limit=round(5 * rate))
        glance, looks, over = Glance(), list[Look](), threading.Event()
        looking = threading.Thread(target=_look, args=(replicas, leader, looks, over))
        looking.start()
        before = [cpu_seconds(one.pid) for one in replicas]
        answered = [_answered(one) for one in replicas]
        began = time.perf_counter()
        open_loop(connections, requests, glance, rate=rate, limit=round(seconds * rate))
        took = time.perf_counter() - began
        time.sleep(2 * _MOST_LAG_SECONDS)
        over.set()
        looking.join()
    costs = {
        one: (cpu_seconds(one.pid) - cpu) / (_answered(one) - count) * 1e6
        for one, cpu, count in zip(replicas, before, answered, strict=True)
    }
    return Found(
        rate=len(glance.latencies) / took,
        leader_us=costs.pop(leader),
        other_us=list(costs.values()),
        p99_ms=percentile(sorted(glance.latencies), 0.99) * 1e3,
        late_seconds=max(_lags(looks), default=float("inf")),
        dropped=sum(one.metric("genguard_detection_dropped_total") for one in replicas),
        wrong=glance.wrong,
    )


def _answered(replica: Replica) -> float:
    return replica.metric("genguard_reviews_total")


def _look(
    replicas: Sequence[Replica], leader: Replica, looks: list[Look], over: threading.Event
) -> None:
    while not over.wait(_LOOK_SECONDS):
        at = time.monotonic()
        sent = sum(one.metric(_FACTS, result="sent") for one in replicas)
        looks.append(Look(at, sent, leader.metric(_FACTS, result="read")))


def _lags(looks: Sequence[Look]) -> list[float]:
    """Of each look, the seconds until the leader had read all that was sent by then."""
    lags = []
    for number, look in enumerate(looks):
        read = (other.at for other in looks[number:] if other.read >= look.sent)
        lags.append(next(read, float("inf")) - look.at)
    return lags


if __name__ == "__main__":
    sys.exit(main())
