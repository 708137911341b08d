"""Asks all the time whether genguard guards writes, while its active pod is taken away."""

import time
from contextlib import ExitStack
from functools import partial
from typing import Self

from tests.beside import Again
from tests.controlplane.client import ApiError, wait_until
from tests.kind.cluster import Cluster
from tests.kind.draws import deployment

_ASKERS = 4
_PAUSE_SECONDS = 0.05


class Guarded:
    """`with Guarded(cluster, namespace) as guarded:`, then `guarded.gap`.

    A webhook must clear the status of Deployments there: what is written comes back as it was sent
    only when genguard has answered.
    """

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster, self._namespace = cluster, namespace
        self._asking = ExitStack()
        self._asked = 0
        self._unguarded: list[float] = []
        self.failures: list[str] = []

    def __enter__(self) -> Self:
        self._cluster.apply(*(deployment(one, self._namespace, 0) for one in self._names))
        wait_until(lambda: all(map(self._observed, self._names)), what="all are observed")
        for name in self._names:
            ask = partial(self._ask, name)
            self._asking.enter_context(Again(ask, _PAUSE_SECONDS, done=self._cluster.client.close))
        return self

    def __exit__(self, *_: object) -> None:
        self._asking.close()

    @property
    def gap(self) -> float:
        """The seconds from the first write that was not guarded to the last, as they were sent."""
        found = self._unguarded
        return max(found) - min(found) if found else 0.0

    def __str__(self) -> str:
        return f"{len(self._unguarded)} of {self._asked} unguarded, within {self.gap:.1f} s"

    @property
    def _names(self) -> list[str]:
        return [f"asked-{number}" for number in range(_ASKERS)]

    def _path(self, name: str) -> str:
        return f"/apis/apps/v1/namespaces/{self._namespace}/deployments/{name}"

    def _observed(self, name: str) -> bool:
        found = self._cluster.client.get(self._path(name)).body
        return found["status"].get("observedGeneration") == 1

    def _ask(self, name: str, _: int) -> None:
        path = f"{self._path(name)}/status"
        try:
            sent = time.monotonic()
            answer = self._cluster.client.patch(path, {"status": {"observedGeneration": 1}})
        except (ApiError, OSError) as error:
            self.failures.append(f"{type(error).__name__}: {error}")
            return
        self._asked += 1
        if answer.body["status"].get("observedGeneration") != 1:
            self._unguarded.append(sent)
