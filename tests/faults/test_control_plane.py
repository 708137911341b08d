"""The API server, or its etcd, crashes under load and comes back: genguard is no further obstacle.

While there is no API server, or none that can store, every write fails, and whoever asks is told
so by the API server or by nobody. No write fails because of genguard, whose failures are fatal
here: not meanwhile, and not when it is asked again on new connections.
"""

import time
from collections.abc import Iterator

import pytest

from tests.controlplane.client import wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.controlplane.webhook_listener import WebhookListener
from tests.e2e.culprits import OLD_OPERATOR
from tests.e2e.genguard import Genguard
from tests.e2e.registrations import registered
from tests.e2e.traffic import PATIENCE, Traffic

AWAY_SECONDS = 3.0
BACK_SECONDS = 60.0
"""A watch that has failed again and again is asked for again after a minute at most."""
WATCHED = "podtemplates"


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """Of its own: others trust theirs to be there."""
    with ControlPlane() as running:
        yield running


@pytest.mark.parametrize("program", ["kube-apiserver", "etcd"])
def test_no_write_fails_because_of_genguard_when_this_crashes_and_comes_back(
    plane: ControlPlane, namespace: NamespaceFactory, program: str
) -> None:
    where = namespace(plane)
    flags = (f"--kubeconfig={plane.kubeconfig}", f"--watch={WATCHED}", "--events")
    with (
        Genguard(*flags) as guard,
        registered(plane, where, guard, failurePolicy="Fail", timeoutSeconds=PATIENCE),
        Traffic(plane, where) as traffic,
    ):
        traffic.more(50)
        assert traffic.failures == []
        plane.crash(program)
        try:
            time.sleep(1.0)  # for what was on its way
            written = traffic.written
            time.sleep(AWAY_SECONDS)
            assert traffic.written == written, "nothing can be stored"
            assert guard.ops("/readyz")[0] == 200
        finally:
            plane.recover(program)
        traffic.more(100)
        back = time.monotonic()
        # What is registered now is known to a watch that goes on, and to no other.
        with (
            WebhookListener(plane.authority) as other,
            other.registered(plane, where, name=OLD_OPERATOR),
        ):
            wait_until(lambda: OLD_OPERATOR in guard.ops("/api/webhooks")[1], BACK_SECONDS)
        current = lambda: guard.metric("genguard_watch_current", resource=WATCHED)  # noqa: E731
        wait_until(lambda: current() == 1, BACK_SECONDS, what="the watch current")
        traffic.more(100)
    assert [one for one in traffic.failures if one.by_webhook or one.at > back] == []
    print(f"{program}: {traffic.written} writes, {len(traffic.failures)} failed while it was away")
