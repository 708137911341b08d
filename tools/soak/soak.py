"""A soak of one real server: load, failed handshakes, troubles, and what it takes meanwhile."""

import itertools
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Final

from tests.controlplane.client import wait_until
from tests.controlplane.plane import ControlPlane
from tests.e2e.genguard import Genguard
from tests.store.proxy import Proxy
from tests.store.server import StoreServer
from tools.bench.connection import BrokenConnectionError, Connection, Response
from tools.bench.loops import UnansweredError, closed_loop, open_loop
from tools.bench.processes import resident_bytes, wait_until_quiet
from tools.bench.template import Filled
from tools.soak.traffic import Traffic
from tools.soak.troubles import Certificates, Handshakes, troubles_of

_FILL: Final = 2_000
_LONG: Final = 600.0
_SHOWN: Final = 5
_TOO_MUCH: Final = b"429"
_EXPECTED: Final = frozenset(
    {"certificate refused", "finding opened", "finding escalated", "finding reopened"}
)
"""Messages of level error: certificates are spoilt, and there are loops in the traffic."""
_SETTLED_SECONDS: Final = 20.0
_LONGEST_WARM_UP: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How long, how much, how often.

    seconds      measured, after warming up
    rate         reviews a second
    objects      distinct ones; of more than detection remembers, nothing is left to grow
    period       seconds in which certificate and store have their trouble once
    sample       seconds between samples
    fills        how often each object is written before the server is warm
    connections  that are kept; each second one more comes and goes
    """

    seconds: float
    rate: int
    objects: int
    period: float
    sample: float
    fills: int
    connections: int = 8


@dataclass(frozen=True, slots=True)
class Sample:
    """What the server takes at one moment; `at` in seconds since it was warm."""

    at: float
    resident: int
    descriptors: int
    metrics_bytes: int


class Kept:
    """A connection as the API server keeps one: another follows the one that is to be closed."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect: Final = connect
        self._now = connect()
        self._is_over = False

    @property
    def request(self) -> Filled | None:
        """See tools.bench.connection.Connection, as with all that follows."""
        return self._now.request

    @property
    def due(self) -> float:
        return self._now.due

    def fileno(self) -> int:
        return self._now.fileno()

    def send(self, request: Filled, due: float) -> None:
        if self._is_over:
            self._now.close()
            self._now, self._is_over = self._connect(), False
        self._now.send(request, due)

    def receive(self) -> Response | None:
        found = self._now.receive()
        self._is_over = found is not None and found.closes
        return found

    def close(self) -> None:
        self._now.close()


@dataclass(slots=True)
class Answers:
    """A look at every answer: whether it is one, and to what was asked."""

    answered: int = 0
    shed: int = 0
    wrong: list[str] = field(default_factory=list)

    def __call__(self, request: Filled, response: Response, seconds: float) -> None:
        """See tools.bench.loops.Answered."""
        del seconds
        self.answered += 1
        if response.status == _TOO_MUCH:
            self.shed += 1  # an honest answer, on a machine that others use as well
        elif (
            response.status != b"200"
            or b'"allowed":true' not in response.body
            or request.uid not in response.body
        ):
            self.wrong.append(f"{response.status.decode()}: {response.body[:200]!r}")
            del self.wrong[_SHOWN:]


@dataclass(frozen=True, slots=True)
class Soaked:
    """What was seen.

    samples    the first of them as soon as the server was warm
    few, many  distinct objects, at first and in the end, and the metric series of each
    errors     what was logged at level error, but for the spoilt certificates and the loops
    """

    samples: tuple[Sample, ...]
    few: int
    series_of_few: frozenset[str]
    many: int
    series_of_many: frozenset[str]
    answers: Answers
    handshakes: int
    troubles: int
    errors: frozenset[str] = frozenset()


def soak(plan: Plan, tell: Callable[[str], None] = print) -> Soaked:
    """Do it. Raises TimeoutError where the server does not come back from a trouble.

    And BrokenConnectionError or UnansweredError where it leaves a request without an answer, with
    a note of what it says that it refused.
    """
    with _running(plan) as run:
        try:
            return _soak(plan, run, tell)
        except (BrokenConnectionError, UnansweredError) as error:
            error.add_note("\n".join(sorted(run.refusals())) or "nothing was refused")
            raise


def _soak(plan: Plan, run: "_Run", tell: Callable[[str], None]) -> Soaked:
    begun, shorter = time.monotonic(), min(plan.period, _LONGEST_WARM_UP)
    run.load(shorter, shorter)
    few, series_of_few = run.traffic.written, run.series()
    run.fill()
    run.load(shorter, shorter)
    first = run.sample(0.0)
    tell(f"warm after {time.monotonic() - begun:.0f} s and {run.answers.answered:,} reviews")
    samples = [first, *run.load(plan.seconds, plan.period)]
    # Connections that have just been closed are given back in a moment.
    with suppress(TimeoutError):
        wait_until(lambda: run.descriptors() <= first.descriptors, _SETTLED_SECONDS)
    samples.append(run.sample(plan.seconds))
    return Soaked(
        tuple(samples),
        few,
        series_of_few,
        run.traffic.written,
        run.series(),
        run.answers,
        run.handshakes.failed,
        run.rounds,
        run.errors(),
    )


class _Run:
    """The server, whoever asks it, and whatever befalls it."""

    def __init__(
        self, plan: Plan, server: Genguard, certificates: Certificates, store: StoreServer
    ) -> None:
        self.traffic: Final = Traffic(plan.objects)
        self.answers: Final = Answers()
        self.handshakes: Final = Handshakes(server.admission_port)
        self.rounds = 0
        self._plan: Final = plan
        self._server: Final = server
        self._certificates: Final = certificates
        self._store: Final = store
        self._kept: Final = [Kept(self._connect) for _ in range(plan.connections)]

    def close(self) -> None:
        """Let go of the server."""
        for connection in self._kept:
            connection.close()

    def fill(self) -> None:
        """Write every object, in turns short enough for detection to see all of it."""
        self.traffic.widen()
        reviews = self._plan.fills * self.traffic.round
        for done in range(0, reviews, _FILL):
            limit = min(_FILL, reviews - done)
            closed_loop(self._kept, self.traffic, self.answers, seconds=_LONG, limit=limit)
            wait_until_quiet(self._server.pid)

    def load(self, seconds: float, period: float) -> list[Sample]:
        """Everything at once for so long, second by second; in the end all is well."""
        begun, samples, rate = time.monotonic(), [], self._plan.rate
        rounds = max(1, int(seconds / period))
        troubles = deque(troubles_of(self._certificates, self._store, period, rounds))
        for second in itertools.count(1):
            while troubles and troubles[0][0] <= time.monotonic() - begun:
                troubles.popleft()[1]()
            self.handshakes.fail()
            with closing(Kept(self._connect)) as fresh:
                open_loop([*self._kept, fresh], self.traffic, self.answers, rate=rate, limit=rate)
            passed = time.monotonic() - begun
            if passed >= seconds and not troubles:
                break
            if passed >= (len(samples) + 1) * self._plan.sample:
                samples.append(self.sample(passed))
            time.sleep(max(0.0, second - passed))
        self.rounds += rounds
        port = self._server.admission_port
        wait_until(lambda: self._certificates.is_served(port), what="the good pair served")
        wait_until(lambda: self._server.has_store, what="the store asked again")
        return samples

    def descriptors(self) -> int:
        """How many files and sockets it has open."""
        return len(list(Path(f"/proc/{self._server.pid}/fd").iterdir()))

    def sample(self, at: float) -> Sample:
        """What it takes now."""
        wait_until_quiet(self._server.pid)
        resident, descriptors = resident_bytes(self._server.pid), self.descriptors()
        return Sample(at, resident, descriptors, len(self._metrics().encode()))

    def series(self) -> frozenset[str]:
        """Every metric with its labels."""
        lines = self._metrics().splitlines()
        return frozenset(line.rpartition(" ")[0] for line in lines if not line.startswith("#"))

    def refusals(self) -> list[str]:
        """What the server says that it refused, and how often."""
        lines = self._metrics().splitlines()
        return [line for line in lines if line.startswith("genguard_refused_requests_total{")]

    def errors(self) -> frozenset[str]:
        """The messages of level error that it was not made to log."""
        lines = self._server.log_lines()
        return frozenset(one["message"] for one in lines if one["level"] == "error") - _EXPECTED

    def _metrics(self) -> str:
        status, page = self._server.ops("/metrics", timeout=_LONG)
        assert status == HTTPStatus.OK
        return page

    def _connect(self) -> Connection:
        return Connection(self._server.admission_port, self._certificates.context)


@contextmanager
def _running(plan: Plan) -> Iterator[_Run]:
    with (
        tempfile.TemporaryDirectory(prefix="genguard-soak-") as folder,
        ControlPlane() as plane,
        StoreServer() as store,
        Proxy(store.socket) as proxy,
    ):
        certificates = Certificates(Path(folder))
        certificate, key = certificates.files
        flags = [f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}"]
        flags.append(f"--kubeconfig={plane.kubeconfig}")  # a Lease elects who reads the store
        with (
            Genguard(*flags, f"--store=valkey://127.0.0.1:{proxy.port}/0") as server,
            closing(_Run(plan, server, certificates, store)) as run,
        ):
            yield run
