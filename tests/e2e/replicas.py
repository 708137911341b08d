"""Genguards with one store, behind a Service: one server to whoever registers them."""

from collections.abc import Callable
from typing import Any

from tests.controlplane.client import wait_until
from tests.e2e.genguard import Genguard
from tests.e2e.registrations import PHASES
from tests.faults.fleet import Fleet
from tests.store.loop import findings
from tests.store.patient import SELDOM_SLOW

Json = dict[str, Any]


class Replicas(Fleet):
    """What the replicas say between them.

    Every phase has a port of its own, for the API server keeps its connections by port: the phases
    of one write go to different replicas even where nothing else is written at the time.
    """

    def __init__(self, *flags: str) -> None:
        super().__init__(*flags, within=SELDOM_SLOW)

    def spread(self, **labels: str) -> dict[str, list[float]]:
        """How many reviews of each phase went to each replica."""
        name = "genguard_reviews_total"
        return {
            phase: [one.metric(name, phase=phase, **labels) for one in self.endpoints]
            for phase in PHASES
        }

    def findings(self, *, namespace: str, of: Genguard | None = None) -> dict[str, Json]:
        """What the leader, or another one, shows of one namespace, by id."""
        return {
            name: one
            for name, one in findings(of or self.leader).items()
            if "objects" not in one and one["object"]["namespace"] == namespace
        }

    def kill_leader(self) -> None:
        """No connection leads there any more."""
        found = self.leader
        self.remove(found)
        found.kill()

    @property
    def leader(self) -> Genguard:
        """The one that finds."""

        def leading() -> Genguard | None:
            leads = (one for one in self.endpoints if one.metric("genguard_leader") == 1)
            return next(leads, None)

        return wait_until(leading, what="one that leads")

    def wait_for_store(self) -> None:
        wait_until(lambda: all(one.has_store for one in self.endpoints), what="the store asked")

    def logged(self, true: Callable[[Json], bool]) -> list[Json]:
        """The lines of all logs."""
        return [line for one in self.endpoints for line in one.log_lines() if true(line)]
