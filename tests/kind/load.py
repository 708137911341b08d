"""Users who make 40 writes a second for as long as something happens, and what they are told."""

import http.client
import itertools
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Self

from tests.controlplane.client import ApiError, wait_until
from tests.kind.cluster import Cluster, Figure
from tests.kind.culprit import Culprit
from tests.kind.draws import deployment, unrepaired
from tests.kind.faults import restart_the_api_server

RATE = 40.0
"""Writes a second, of all writers together."""
WRITES = 1_700
"""In each fault at least: of all six more than 10,000."""
_AFTERWARDS_SECONDS = 10.0  # in which every Deployment of the load is written again
_WRITERS = 32
_DEPLOYMENTS = 20
_RETRY_SECONDS = 0.2
_PATIENCE_SECONDS = 120.0
_GONE, _THERE, _BUSY = 404, 409, 429


class Tally(NamedTuple):
    """What came of a load.

    written      writes that were answered with success
    failures     those that were refused or not answered, while the API server was there
    interrupted  tries that the API server itself did not answer, or refused since it was starting;
                 each was tried again
    """

    written: int
    failures: tuple[str, ...]
    interrupted: int
    seconds: tuple[float, ...]

    def __str__(self) -> str:
        if not self.seconds:
            return "no write"
        ordered = sorted(self.seconds)
        p50, p99 = (ordered[int(len(ordered) * share)] * 1000 for share in (0.5, 0.99))
        retried = f", {self.interrupted} tried again" if self.interrupted else ""
        total = self.written + len(self.failures)
        told = f"{len(self.failures)} of {total:,} writes failed{retried}"
        return f"{told}; p50 {p50:.0f} ms, p99 {p99:.0f} ms"


class Load:
    """`with Load(cluster, "load") as load:`, then `load.tally`.

    Each writer creates, changes and deletes a PodTemplate of its own, and changes the spec of one
    of 20 Deployments, whose controller then writes a status.
    """

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster, self._namespace = cluster, namespace
        self._client = cluster.client
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._write, args=(number,)) for number in range(_WRITERS)
        ]
        self._seconds: list[float] = []
        self._failures: list[str] = []
        self._interrupted = 0
        self._due = 0.0

    def __enter__(self) -> Self:
        self._cluster.namespace(self._namespace)
        made = range(_DEPLOYMENTS)
        self._cluster.apply(
            *(deployment(f"d-{n:02}", self._namespace, 0, paused=True) for n in made)
        )
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End it, and wait for the writes that are under way."""
        self._over.set()
        for each in self._threads:
            each.join()

    def until(self, writes: int) -> None:
        """Go on until so many writes have been made."""
        while len(self._seconds) < writes:
            self.go_on(1.0)

    def go_on(self, seconds: float) -> None:
        """Let the writers write for so long."""
        self._over.wait(seconds)

    @property
    def tally(self) -> Tally:
        """What came of it by now."""
        with self._lock:
            seconds, failures = tuple(self._seconds), tuple(self._failures)
            return Tally(len(seconds), failures, self._interrupted, seconds)

    def _write(self, number: int) -> None:
        templates = f"/api/v1/namespaces/{self._namespace}/podtemplates"
        spec = {"containers": [{"name": "c", "image": "image:1"}]}
        apps = f"/apis/apps/v1/namespaces/{self._namespace}/deployments"
        for turn in itertools.count():
            name = f"t-{number}-{turn}"
            one, other = f"{templates}/{name}", f"{apps}/d-{(number + turn) % _DEPLOYMENTS:02}"
            body = {"metadata": {"name": name}, "template": {"spec": spec}}
            changed = {"spec": {"template": {"metadata": {"annotations": {"turn": name}}}}}
            for write in (
                ("POST", templates, body, _THERE),
                ("PATCH", other, changed, 0),
                ("PATCH", one, {"template": {"spec": {"nodeName": "other"}}}, 0),
                ("DELETE", one, None, _GONE),
            ):
                if not self._wait_for_turn():
                    self._client.close()
                    return
                self._try(*write)

    def _wait_for_turn(self) -> bool:
        """Wait until the next write is due; whether there is to be one.

        What could not be written in time is not made up for.
        """
        with self._lock:
            self._due = max(self._due + 1 / RATE, time.monotonic())
            due = self._due
        return not self._over.wait(max(0.0, due - time.monotonic()))

    def _try(self, method: str, path: str, body: Any, done: int) -> None:
        """One write; `done` is the status which, when tried again, says that it was carried out."""
        begin, again = time.monotonic(), False
        content = "application/merge-patch+json" if method == "PATCH" else "application/json"
        while True:
            try:
                answer = self._client.request(method, path, body, content_type=content, check=False)
            except (OSError, http.client.HTTPException) as error:
                answer, told = None, f"{type(error).__name__}: {error}"
                self._client.close()
            if answer is not None:
                if answer.status < 400 or (again and answer.status == done):
                    with self._lock:
                        self._seconds.append(time.monotonic() - begin)
                    return
                told = str(ApiError(method, path, answer))
                if not _is_api_server_s_own(answer.status, told):
                    with self._lock:
                        self._failures.append(told)
                    return
            again = True
            with self._lock:
                self._interrupted += 1
            if time.monotonic() > begin + _PATIENCE_SECONDS:
                with self._lock:
                    self._failures.append(told)
                return
            time.sleep(_RETRY_SECONDS)


def assert_nothing_lost(
    cluster: Cluster, culprit: Culprit, figure: Figure, fault: Callable[[Cluster], None]
) -> None:
    """Let a fault happen under load: no write may fail, and every value must be right after it."""
    namespace = fault.__name__.replace("_", "-")
    with culprit.clearing("deployments/status", namespace), Load(cluster, namespace) as load:
        load.go_on(3)
        fault(cluster)
        load.until(WRITES)
        load.go_on(_AFTERWARDS_SECONDS)
        load.stop()
        tally, left = load.tally, _unrepaired_for_good(cluster, namespace)
    figure(f"{tally}; {left} left unrepaired")
    cluster.kubectl("delete", "namespace", namespace, "--wait=false")
    assert not tally.failures, tally.failures[:3]
    assert left == 0
    if fault is not restart_the_api_server:
        assert tally.interrupted == 0


def _unrepaired_for_good(cluster: Cluster, namespace: str) -> int:
    """How many Deployments are unrepaired half a minute after the last write."""
    try:
        wait_until(lambda: not unrepaired(cluster, namespace), 30, every=1)
    except TimeoutError:
        return len(unrepaired(cluster, namespace))
    return 0


def _is_api_server_s_own(status: int, told: str) -> bool:
    """Whether the API server refuses while it starts: no webhook is the reason."""
    return (status >= 500 or status in (401, 403, _BUSY)) and "webhook" not in told
