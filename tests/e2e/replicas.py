"""Three genguards behind a balancer, with one store: one server to whoever registers them."""

import itertools
import tempfile
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.controlplane.client import wait_until
from tests.e2e.balancer import Balancer
from tests.e2e.registrations import PHASES
from tests.store.loop import findings
from tests.store.patient import SELDOM_SLOW
from tests.store.replica import Replica

REPLICAS = 3
Json = dict[str, Any]


class Replicas:
    """What `registered` asks of a Genguard, and what the replicas say between them.

    Every phase has a port of its own, for the API server keeps its connections by port: the phases
    of one write go to different replicas even where nothing else is written at the time.
    """

    def __init__(self, each: Sequence[Replica], ports: dict[str, Balancer], ca: bytes) -> None:
        self.each, self._ports = each, ports
        self.ca_bundle = b64encode(ca).decode()

    def url(self, path: str) -> str:
        return f"https://127.0.0.1:{self._ports[path].port}/{path}"

    def metric(self, name: str, **labels: str) -> float:
        return sum(self.metrics(name, **labels))

    def metrics(self, name: str, **labels: str) -> list[float]:
        """Of each replica."""
        return [one.metric(name, **labels) for one in self.each]

    def spread(self, **labels: str) -> dict[str, list[float]]:
        """How many reviews of each phase went to each replica."""
        name = "genguard_reviews_total"
        return {phase: self.metrics(name, phase=phase, **labels) for phase in PHASES}

    def findings(self, *, namespace: str) -> list[dict[str, Json]]:
        """What each replica shows of one namespace, by id."""
        return [
            {
                name: one
                for name, one in findings(replica).items()
                if "objects" not in one and one["object"]["namespace"] == namespace
            }
            for replica in self.each
        ]

    @property
    def have_store(self) -> bool:
        return all(one.has_store for one in self.each)

    def wait_to_judge_as_one(self) -> None:
        """What one sees all of them count."""
        wait_until(lambda: all(one.is_sharing for one in self.each), what="facts shared by all")

    def wait_for_store(self) -> None:
        wait_until(lambda: self.have_store, what="the store asked by all")

    def logged(self, true: Callable[[Json], bool]) -> list[Json]:
        """The lines of all logs."""
        return [line for one in self.each for line in one.log_lines() if true(line)]


@contextmanager
def replicated(*flags: str) -> Iterator[Replicas]:
    """Runs them; each connection goes to the next one."""
    with ExitStack() as stack:
        certs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="genguard-certs-")))
        # The first one makes the certificate, the others find it.
        each = [
            stack.enter_context(Replica(f"--cert-dir={certs}", *flags, within=SELDOM_SLOW))
            for _ in range(REPLICAS)
        ]
        turns = itertools.cycle([one.admission_port for one in each])
        ports = {phase: stack.enter_context(Balancer(turns)) for phase in PHASES}
        yield Replicas(each, ports, (certs / "ca.crt").read_bytes())
