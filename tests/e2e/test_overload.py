"""What an API server does where a webhook has too much to do: 429 with Retry-After."""

import time
from concurrent.futures import ThreadPoolExecutor

from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.e2e.custom import served
from tests.e2e.genguard import Genguard
from tests.e2e.registrations import registered, rule
from webhook.server.overload import MOST_WAITED

STATUS = ["widgets/status"]
TIMEOUT = 10
WRITERS = 8


def test_a_write_that_is_shed_is_sent_again_and_mended(
    apiserver: ControlPlane, namespace: NamespaceFactory
) -> None:
    """genguard stands still for longer than an answer may take, and not for all of the timeout.

    Several writes wait for it: one that waits alone is answered, however late.
    """
    name = namespace(apiserver)
    rules = [rule(STATUS, ["UPDATE"])]
    with (
        Genguard() as guard,
        served(apiserver, name, status_subresource=True) as widgets,
        registered(apiserver, name, guard, phases=["mutate"], rules=rules, timeoutSeconds=TIMEOUT),
    ):
        names = [f"widget-{number}" for number in range(WRITERS)]
        for one in names:
            widgets.create(one)

        def write_all(seconds: float, **status: int) -> None:
            """Write every status while genguard stands still for so long."""
            found = [widgets.get(one) for one in names]
            guard.pause()
            with ThreadPoolExecutor(WRITERS) as pool:
                writes = [pool.submit(widgets.put, one, "status", status=status) for one in found]
                time.sleep(seconds)
                guard.go_on()
                for write in writes:
                    write.result()

        write_all(1.0, observedGeneration=1)  # the API server opens a connection for each, too
        assert guard.metric("genguard_shed_total", reason="late") == 0
        write_all(MOST_WAITED * TIMEOUT + 0.5)
        assert 1 <= guard.metric("genguard_shed_total", reason="late") <= WRITERS
        assert all(widgets.get(one)["status"] == {"observedGeneration": 1} for one in names)
        assert len(guard.log_lines("overloaded: reviews are shed")) == 1
