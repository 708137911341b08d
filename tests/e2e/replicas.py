"""Three genguards behind a balancer, with one store: one server to whoever registers them."""

import itertools
import tempfile
from base64 import b64encode
from collections.abc import Callable, Iterator
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

    def __init__(self, each: list[Replica], ports: dict[str, Balancer], ca: bytes) -> None:
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

    def findings(self, *, namespace: str, of: Replica | None = None) -> dict[str, Json]:
        """What the leader, or another one, shows of one namespace, by id."""
        return {
            name: one
            for name, one in findings(of or self.leader).items()
            if "objects" not in one and one["object"]["namespace"] == namespace
        }

    def kill_leader(self) -> Replica:
        """No connection leads there any more."""
        found = self.leader
        self.each.remove(found)
        found.kill()
        return found

    @property
    def leader(self) -> Replica:
        """The one that finds."""
        return wait_until(
            lambda: next((one for one in self.each if one.metric("genguard_leader") == 1), None),
            what="one that leads",
        )

    @property
    def have_store(self) -> bool:
        return all(one.has_store for one in self.each)

    def wait_for_store(self) -> None:
        wait_until(lambda: self.have_store, what="the store asked by all")

    def logged(self, true: Callable[[Json], bool]) -> list[Json]:
        """The lines of all logs."""
        return [line for one in self.each for line in one.log_lines() if true(line)]


def _turns(each: list[Replica]) -> Iterator[int]:
    """Their ports by turns, of those that are still there."""
    for number in itertools.count():
        yield each[number % len(each)].admission_port


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
        turns = _turns(each)
        ports = {phase: stack.enter_context(Balancer(turns)) for phase in PHASES}
        yield Replicas(each, ports, (certs / "ca.crt").read_bytes())
