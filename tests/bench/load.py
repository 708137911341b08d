"""The process that the load comes from: jobs as JSON lines on stdin, results on stdout.

It talks to ports of 127.0.0.1 only, and every job is bounded in requests and in seconds.
"""

import gc
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from tests.bench.connection import BrokenConnectionError, Connection
from tests.bench.corpus import read_corpus
from tests.bench.glance import Glance
from tests.bench.loops import Requests, UnansweredError, closed_loop, open_loop
from tests.bench.processes import cpu_seconds, own_core
from tests.bench.running import client_context
from tests.bench.template import Template, make_templates

CONNECTIONS: Final = 16


class Job(msgspec.Struct, frozen=True):
    """One measurement of one server.

    rate     requests a second of an open loop; 0 for a closed one
    seconds  how long; an open loop sends rate x seconds requests
    warm_up  requests before anything is counted
    """

    port: int
    pid: int
    folder: str
    path: str
    seconds: float
    warm_up: int
    rate: float = 0.0
    limit: int = 1_000_000
    connections: int = CONNECTIONS
    constant_uid: str = ""


class Measured(msgspec.Struct, frozen=True):
    """What was counted between the first request after warming up and the last answer.

    latencies    seconds from when a request was due until its answer was whole
    cpu_seconds  the server's; own_seconds the generator's
    wrong        the first answers that were not right
    """

    requests: int
    seconds: float
    cpu_seconds: float
    own_seconds: float
    latencies: tuple[float, ...]
    wrong: tuple[str, ...]


def measure(job: Job, requests: Requests) -> Measured:
    """Do a job. Raises OSError, BrokenConnectionError and UnansweredError."""
    context = client_context(Path(job.folder))
    connections = [Connection(job.port, context) for _ in range(job.connections)]
    try:
        return _measure(job, requests, connections)
    finally:
        for connection in connections:
            connection.close()


def _measure(job: Job, requests: Requests, connections: Sequence[Connection]) -> Measured:
    warming, glance = Glance(job.constant_uid), Glance(job.constant_uid)
    closed_loop(connections, requests, warming, seconds=job.seconds, limit=job.warm_up)
    cpu, own, begun = cpu_seconds(job.pid), time.process_time(), time.perf_counter()
    if job.rate:
        limit = min(job.limit, round(job.rate * job.seconds))
        open_loop(connections, requests, glance, rate=job.rate, limit=limit)
    else:
        closed_loop(connections, requests, glance, seconds=job.seconds, limit=job.limit)
    seconds = time.perf_counter() - begun
    return Measured(
        requests=len(glance.latencies),
        seconds=seconds,
        cpu_seconds=cpu_seconds(job.pid) - cpu,
        own_seconds=time.process_time() - own,
        latencies=tuple(glance.latencies),
        wrong=(*warming.wrong, *glance.wrong),
    )


def main() -> None:
    """Work until there are no more jobs."""
    os.sched_setaffinity(0, own_core(server=False))
    corpus = read_corpus()
    by_path: dict[str, tuple[Template, ...]] = {}
    requests: dict[str, Requests] = {}
    gc.disable()
    for line in sys.stdin.buffer:
        job = msgspec.json.decode(line, type=Job)
        if job.path not in requests:
            by_path[job.path] = make_templates(corpus, job.path)
            requests[job.path] = Requests(by_path[job.path])
        gc.collect()
        try:
            answer: Measured | dict[str, str] = measure(job, requests[job.path])
        except (OSError, BrokenConnectionError, UnansweredError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
