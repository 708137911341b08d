"""Asks all the time in which mode writes are answered, while genguard is switched to the other."""

import time
from typing import Self

from tests.beside import Beside
from tests.controlplane.client import ApiError, wait_until
from tests.kind.cluster import Cluster
from tests.kind.draws import deployment

_NAMESPACE = "switching"
_PAUSE_SECONDS = 0.05
_AFTER_SECONDS = 10.0


class Switch(Beside):
    """`with Switch(cluster) as switch:` install in the other mode, then `switch.is_over(mode)`.

    A status write that leaves out an observedGeneration which is stored comes back with it when a
    pod that enforces has answered, and without it when one that only watches has.
    """

    def __init__(self, cluster: Cluster) -> None:
        super().__init__()
        self._cluster = cluster
        self._answers: list[tuple[float, str]] = []
        self._told = ""

    def __enter__(self) -> Self:
        self._cluster.namespace(_NAMESPACE)
        self._cluster.apply(deployment("probe", _NAMESPACE, 0))
        path = f"/apis/apps/v1/namespaces/{_NAMESPACE}/deployments/probe"
        self._path = f"{path}/status"

        def observed() -> bool:
            return "observedGeneration" in self._cluster.client.get(path).body["status"]

        wait_until(observed, what="a Deployment that is observed")
        return super().__enter__()

    def is_over(self, mode: str) -> None:
        """From now on every answer must be of this mode; watches for some seconds."""
        begin = time.monotonic()
        time.sleep(_AFTER_SECONDS)
        answers = [what for at, what in self._answers if at > begin]
        others = sum(what != mode for what in answers)
        self._told = f"{others} of {len(answers)} answers in the old mode after install returned"
        assert answers
        assert not others, self._told

    def __str__(self) -> str:
        return self._told

    def _run(self) -> None:
        client = self._cluster.client
        while not self._over.wait(_PAUSE_SECONDS):
            try:
                before = time.monotonic()
                # It is stored again first: what is not stored cannot be put back.
                client.patch(self._path, {"status": {"observedGeneration": 1}})
                answer = client.patch(self._path, {"status": {"observedGeneration": None}})
            except (ApiError, OSError):
                continue
            kept = answer.body["status"].get("observedGeneration")
            self._answers.append((before, "enforcing" if kept else "audit-only"))
        client.close()
