"""No name resolves any more, under load: not that of the API server, the store, Alertmanager.

Failures of genguard are fatal here, and none is seen. A name server that is lost is worse than one
that knows nothing: whoever asks it waits in a thread, which nobody can end.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from tests.controlplane.client import wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.e2e.genguard import Genguard
from tests.e2e.registrations import registered
from tests.e2e.traffic import PATIENCE, Traffic
from tests.faults.apart import Names, apart
from tests.faults.faulty_api import FaultyApi

BACK_SECONDS = 60.0
WATCHED = "podtemplates"
HOST = "kubernetes.default.svc"
KNOWN = f"127.0.0.1 {HOST}"
LARGE_BYTES = 600 * 1024


class Named(NamedTuple):
    """What the tests of this module have in common."""

    plane: ControlPlane
    api: FaultyApi
    names: Names
    guard: Genguard


@pytest.fixture(scope="module")
def named(apiserver: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Named]:
    kubeconfig = tmp_path_factory.mktemp("named") / "kubeconfig"
    flags = (
        f"--kubeconfig={kubeconfig}",
        f"--watch={WATCHED}",
        "--events",
        "--store=valkey://store.example.org",
        "--alertmanager=http://one.example.org:9093",
        "--alertmanager=http://two.example.org:9093",
    )
    with (
        FaultyApi(apiserver, kubeconfig, HOST) as api,
        Genguard(*flags, within=apart(Names.script(KNOWN))) as guard,
    ):
        yield Named(apiserver, api, Names(guard.folder, KNOWN), guard)


@pytest.mark.parametrize("begin", [Names.forget, Names.fall_silent])
def test_no_write_fails_while_no_name_resolves(
    named: Named, namespace: NamespaceFactory, begin: Callable[[Names], None]
) -> None:
    """Small ones, large ones, which are examined in threads, and what Prometheus asks for."""
    plane, api, names, guard = named
    where = namespace(plane)
    _wait_until_current(guard)
    with (
        registered(plane, where, guard, failurePolicy="Fail", timeoutSeconds=PATIENCE),
        Traffic(plane, where) as traffic,
    ):
        begin(names)
        api.cut()
        for _ in range(5):
            traffic.more(300)
            _write_large(plane, where)
            assert guard.ops("/metrics")[0] == 200
        names.come_back()
        _wait_until_current(guard)
        traffic.more(50)
    assert traffic.failures == []


def _wait_until_current(guard: Genguard) -> None:
    current = lambda: guard.metric("genguard_watch_current", resource=WATCHED) == 1  # noqa: E731
    wait_until(current, BACK_SECONDS, what="the watch current")


def _write_large(plane: ControlPlane, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/podtemplates"
    container = {"name": "c", "image": "image:1", "args": ["a" * LARGE_BYTES]}
    body = {"metadata": {"name": "large"}, "template": {"spec": {"containers": [container]}}}
    plane.client.post(path, body)
    plane.client.delete(f"{path}/large")
