"""A loop that a server can find."""

from collections.abc import Callable
from typing import Any

from tests.controlplane.client import wait_until
from tests.e2e.genguard import Genguard
from tests.reviews import make_review


class Loop:
    """A webhook that clears what a controller sent, each time upon another state."""

    def __init__(self) -> None:
        self.turns = 0

    def until(self, server: Genguard, true: Callable[[], Any], what: str) -> None:
        """It turns until this is true: writes are joined and examined as later ones come."""

        def turned() -> bool:
            self._turn(server)
            return bool(true())

        wait_until(turned, what=what)

    def _turn(self, server: Genguard) -> None:
        self.turns += 1
        meta = {"generation": 1, "resourceVersion": str(self.turns)}
        stored = {"metadata": meta, "status": {"replicas": 1}}
        sent, cleared = {"observedGeneration": 1, "replicas": 1}, {"replicas": 1}
        for phase, status in (("intent", sent), ("mutate", cleared), ("outcome", sent)):
            asked = {**stored, "status": status}
            server.call(phase, make_review(new=asked, old=stored, subresource="status"))


def findings(server: Genguard) -> dict[str, dict[str, Any]]:
    """What all replicas show alike: only the leader tries the steps that end a loop."""
    return {
        one["id"]: {key: value for key, value in one.items() if key != "fix"}
        for one in server.findings()
    }
