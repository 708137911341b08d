"""The process that the load comes from: jobs as JSON lines on stdin, results on stdout.

It talks to ports of 127.0.0.1 only, and every job is bounded in requests and in seconds.
"""

import gc
import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from genguard.detection.correlate import MOST_AT_ONCE, MOST_PENDING
from tools.bench.bodies import RECORDED, REVIEWS
from tools.bench.connection import BrokenConnectionError, Connection
from tools.bench.glance import Glance
from tools.bench.lives import LIVES
from tools.bench.loops import Answered, Requests, Supply, UnansweredError, closed_loop, open_loop
from tools.bench.processes import own_core, wait_until_quiet
from tools.bench.running import client_context
from tools.bench.template import make_templates
from webhook.server.options import Limits

CONNECTIONS: Final = 16
BURST: Final = Limits().detection_queue
"""The most requests in a row: genguard puts no more aside for detection, so none is left out."""
_WARM_UP: Final = 500
_FILL: Final = 2_000
_FINISHING: Final = 2 * MOST_PENDING // MOST_AT_ONCE
"""Requests that end all that was put aside: more than half of them are updates."""
_LONG: Final = 120.0


class Job(msgspec.Struct, frozen=True):
    """One measurement of one server.

    seconds     how long; an open loop sends rate x seconds requests
    warm_up     seconds before anything is counted, used as in the measurement
    rate        requests a second of an open loop; 0 for a closed one
    reviews     what is asked: a key of bodies.REVIEWS or of lives.LIVES
    by_phase    whether reviews of lives are sent to a path of their phase
    objects     how many objects the requests are about, in turn; 0: the recorded ones
    fill        requests before anything else, in turns short enough for all to be looked into
    puts_aside  seconds for which the server puts work aside at most, waiting for more to come
    """

    port: int
    pid: int
    folder: str
    path: str
    seconds: float
    warm_up: float
    rate: float = 0.0
    connections: int = CONNECTIONS
    constant_uid: str = ""
    reviews: str = RECORDED
    by_phase: bool = False
    objects: int = 0
    fill: int = 0
    puts_aside: float = 0.0


class Measured(msgspec.Struct, frozen=True):
    """What was counted from the first request after warming up.

    seconds          until the last answer
    latencies        seconds from when a request was due until its answer was whole
    cpu_seconds      the server's, until all work was done
    finishing        further requests that had it done, which the processor time is of as well
    own_seconds      the generator's
    wrong            the first answers that were not right
    """

    requests: int
    seconds: float
    cpu_seconds: float
    own_seconds: float
    finishing: int
    latencies: tuple[float, ...]
    wrong: tuple[str, ...]

    @property
    def cpu_us(self) -> float:
        """Microseconds of the server's processor for each request."""
        return self.cpu_seconds / (self.requests + self.finishing) * 1e6


def measure(job: Job, requests: Supply) -> Measured:
    """Do a job. Raises OSError, BrokenConnectionError and UnansweredError."""
    context = client_context(Path(job.folder))
    with ExitStack() as opened:

        def connect() -> Connection:
            return Connection(job.port, context)

        connections = [opened.enter_context(closing(connect())) for _ in range(job.connections)]
        warming, glance = Glance(job.constant_uid), Glance(job.constant_uid)

        finishing = _FINISHING if job.puts_aside else 0

        def settle() -> float:
            """Have all work done, what was put aside as well; the processor time up to then."""
            wait_until_quiet(job.pid)
            if finishing:
                time.sleep(job.puts_aside)
                closed_loop(connections, requests, warming, seconds=_LONG, limit=finishing)
            return wait_until_quiet(job.pid)

        for done in range(0, job.fill, _FILL):
            limit = min(_FILL, job.fill - done)
            closed_loop(connections, requests, warming, seconds=_LONG, limit=limit)
            wait_until_quiet(job.pid)
        use = partial(_use, job, connections, requests)
        if job.rate:
            # Nothing is counted up to now, and then all goes on as it does in the end.
            settle()
            use(warming, seconds=job.warm_up, limit=BURST)
            before = wait_until_quiet(job.pid)
        else:
            use(warming, seconds=job.warm_up, limit=_WARM_UP)
            before = settle()
        own, begun_at = time.process_time(), time.perf_counter()
        use(glance, seconds=job.seconds, limit=BURST)
        seconds, own_seconds = time.perf_counter() - begun_at, time.process_time() - own
        after = wait_until_quiet(job.pid) if job.rate else settle()
        return Measured(
            requests=len(glance.latencies),
            seconds=seconds,
            cpu_seconds=after - before,
            own_seconds=own_seconds,
            finishing=0 if job.rate else finishing,
            latencies=tuple(glance.latencies),
            wrong=(*warming.wrong, *glance.wrong),
        )


def _use(
    job: Job,
    connections: Sequence[Connection],
    requests: Supply,
    answered: Answered,
    *,
    seconds: float,
    limit: int,
) -> None:
    if job.rate:
        limit = min(limit, round(job.rate * seconds))
        open_loop(connections, requests, answered, rate=job.rate, limit=limit)
    else:
        closed_loop(connections, requests, answered, seconds=seconds, limit=limit)


def _supply(job: Job) -> Supply:
    if job.reviews in LIVES:
        return LIVES[job.reviews](lambda phase: f"/{phase}" if job.by_phase else job.path)
    return Requests(make_templates(REVIEWS[job.reviews](), job.path), job.objects)


def main() -> None:
    """Work until there are no more jobs."""
    os.sched_setaffinity(0, own_core(server=False))
    supply: dict[tuple[str, bool, str, int], Supply] = {}
    gc.disable()
    for line in sys.stdin.buffer:
        job = msgspec.json.decode(line, type=Job)
        wanted = job.path, job.by_phase, job.reviews, job.objects
        if wanted not in supply:
            supply[wanted] = _supply(job)
        gc.collect()
        try:
            answer: Measured | dict[str, str] = measure(job, supply[wanted])
        except (OSError, BrokenConnectionError, UnansweredError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
