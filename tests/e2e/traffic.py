"""Users who write without a pause, what they are told, and what the API server let pass unseen."""

import http.client
import itertools
import time
from collections import Counter
from contextlib import ExitStack
from typing import NamedTuple, Self

from prometheus_client.parser import text_string_to_metric_families

from tests.beside import Beside
from tests.controlplane.client import ApiError, Client, wait_until
from tests.controlplane.plane import ControlPlane

WRITERS = 4
PATIENCE = 30
"""timeoutSeconds where failures are fatal, the most that there is: a slow machine is no failure."""
_PAUSE_SECONDS = 0.1


class Failure(NamedTuple):
    """A write that somebody was refused, or was not answered; `at` as time.monotonic() tells it."""

    at: float
    text: str

    @property
    def by_webhook(self) -> bool:
        """Whether the API server was there, and gives a webhook as its reason."""
        return "webhook" in self.text


class Traffic:
    """`with Traffic(plane, namespace) as traffic:`; creates, updates and deletes until left.

    written   writes that were answered with success by now
    failures  all others
    """

    def __init__(self, plane: ControlPlane, namespace: str, writers: int = WRITERS) -> None:
        self._running = ExitStack()
        self._writers = [_Writer(plane.client_of("admin"), namespace, n) for n in range(writers)]

    def __enter__(self) -> Self:
        for each in self._writers:
            self._running.enter_context(each)
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    @property
    def written(self) -> int:
        return sum(each.written for each in self._writers)

    @property
    def failures(self) -> list[Failure]:
        return sorted(one for each in self._writers for one in each.failures)

    def more(self, writes: int, seconds: float = 120.0) -> None:
        """Wait for so many more."""
        target = self.written + writes
        wait_until(lambda: self.written >= target, seconds, what=f"{writes} more writes")


class _Writer(Beside):
    """One user. Nobody else writes a PodTemplate, and its generation counts."""

    def __init__(self, client: Client, namespace: str, number: int) -> None:
        super().__init__()
        self._name = f"writer-{number}"
        self._client = client
        self._path = f"/api/v1/namespaces/{namespace}/podtemplates"
        self.written = 0
        self.failures: list[Failure] = []

    def _run(self) -> None:
        spec = {"containers": [{"name": "c", "image": "image:1"}]}
        for number in itertools.count():
            if self._over.is_set():
                break
            # A name is used once: a request whose answer was lost may have been carried out.
            name = f"{self._name}-{number}"
            one = f"{self._path}/{name}"
            try:
                self._client.post(
                    self._path, {"metadata": {"name": name}, "template": {"spec": spec}}
                )
                self.written += 1
                self._client.patch(one, {"template": {"spec": {"nodeName": "other"}}})
                self.written += 1
                self._client.delete(one)
                self.written += 1
            except (ApiError, OSError, http.client.HTTPException) as error:
                self.failures.append(Failure(time.monotonic(), f"{type(error).__name__}: {error}"))
                time.sleep(_PAUSE_SECONDS)
        self._client.close()


def passed_unseen(plane: ControlPlane) -> Counter[str]:
    """Calls of genguard that failed, where `failurePolicy: Ignore` let the write pass, by webhook.

    No user sees them, so they are read off the API server: the counter goes by the webhook's name,
    and is not per namespace. Those of `genguard trace` do not count: another test may kill one.
    """
    families = text_string_to_metric_families(plane.client.get("/metrics").body)
    found = Counter[str]()
    for sample in (one for family in families for one in family.samples):
        if sample.name.startswith("apiserver_admission_webhook_fail_open_count"):
            name = sample.labels["name"]
            if name.endswith(".genguard.io") and ".trace." not in name:
                found[f"{name}, {sample.labels['type']}"] += int(sample.value)
    return found
