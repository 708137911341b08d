"""SIGTERM in the middle of traffic costs nobody a write, even where failures are fatal."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.controlplane.client import ApiError, Client, wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.e2e.genguard import Genguard
from tests.e2e.registrations import registered

pytestmark = pytest.mark.xdist_group("cluster")

WRITERS = 4
DRAINING_SECONDS = 4.0


class Writer(threading.Thread):
    """Creates, updates and deletes as fast as it is answered, until told to stop."""

    def __init__(self, client: Client, path: str, name: str) -> None:
        super().__init__(name=name)
        self.client, self.path = client, path
        self.writes = 0
        self.failed: list[str] = []
        self.over = False

    def run(self) -> None:
        spec = {"containers": [{"name": "c", "image": "image:1"}]}
        body = {"metadata": {"name": self.name}, "template": {"spec": spec}}
        one = f"{self.path}/{self.name}"
        while not self.over:
            try:
                self.client.post(self.path, body)
                self.client.patch(one, {"template": {"spec": {"nodeName": "other"}}})
                self.client.delete(one)
            except ApiError as error:
                self.failed.append(str(error))
                self.client.delete(one, check=False)
            else:
                self.writes += 3
        self.client.close()


@contextmanager
def traffic(client: Client, namespace: str) -> Iterator[list[Writer]]:
    # Nothing but these threads writes a PodTemplate, and its generation counts.
    path = f"/api/v1/namespaces/{namespace}/podtemplates"
    writers = [Writer(client, path, f"of-{number}") for number in range(WRITERS)]
    for each in writers:
        each.start()
    try:
        yield writers
    finally:
        for each in writers:
            each.over = True
        for each in writers:
            each.join()


def written(writers: list[Writer]) -> int:
    return sum(each.writes for each in writers)


def test_no_write_fails_while_genguard_drains_and_it_ends_when_nobody_asks_any_more(
    cluster: ControlPlane, namespace: NamespaceFactory
) -> None:
    name = namespace(cluster)
    with Genguard() as guard, traffic(cluster.client, name) as writers:
        with registered(cluster, name, guard, failurePolicy="Fail"):
            reviews = guard.metric("genguard_reviews_total", resource="podtemplates")
            before = written(writers)
            wait_until(lambda: written(writers) >= before + 50, what="traffic")

            guard.terminate()
            wait_until(lambda: guard.ops("/readyz")[0] == 503, what="not ready")
            assert guard.ops("/livez")[0] == 200
            before = written(writers)
            time.sleep(DRAINING_SECONDS)
            assert written(writers) >= before + 20
            answered = guard.metric("genguard_reviews_total", resource="podtemplates") - reviews
            # Each write is asked about by two hooks or three, on a connection of its own by now.
            assert answered >= 2 * (written(writers) - before)
            assert guard.metric("genguard_open_connections") <= 3 * WRITERS
        # As when its endpoints are gone: the API server asks somebody else, here nobody.
        assert guard.wait() == 0
        before = written(writers)
        wait_until(lambda: written(writers) >= before + 20, what="traffic without genguard")
        assert [each for writer in writers for each in writer.failed] == []
        assert [line["message"] for line in guard.log_lines()][-2:] == ["draining", "stopped"]
