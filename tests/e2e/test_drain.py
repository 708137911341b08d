"""SIGTERM in the middle of traffic costs nobody a write, even where failures are fatal."""

from tests.controlplane.client import wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.e2e.genguard import Genguard
from tests.e2e.registrations import registered
from tests.e2e.traffic import PATIENCE, WRITERS, Traffic


def test_no_write_fails_while_genguard_drains_and_it_ends_when_nobody_asks_any_more(
    cluster: ControlPlane, namespace: NamespaceFactory
) -> None:
    name = namespace(cluster)
    with Genguard() as guard, Traffic(cluster, name) as traffic:
        with registered(cluster, name, guard, failurePolicy="Fail", timeoutSeconds=PATIENCE):
            reviews = guard.metric("genguard_reviews_total", resource="podtemplates")
            traffic.more(50)

            guard.terminate()
            wait_until(lambda: guard.ops("/readyz")[0] == 503, what="not ready")
            assert guard.ops("/livez")[0] == 200
            before = traffic.written
            traffic.more(20)
            answered = guard.metric("genguard_reviews_total", resource="podtemplates") - reviews
            # Each write is asked about by two hooks or three, on a connection of its own by now.
            assert answered >= 2 * (traffic.written - before)
            assert guard.metric("genguard_open_connections") <= 3 * WRITERS
        # As when its endpoints are gone: the API server asks somebody else, here nobody.
        assert guard.wait() == 0
        traffic.more(20)
        assert traffic.failures == []
        assert [line["message"] for line in guard.log_lines()][-2:] == ["draining", "stopped"]
