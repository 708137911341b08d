"""What an API server does where a webhook has too much to do: 429 with Retry-After."""

import threading
import time

import pytest

from tests.controlplane.client import ApiError, wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.controlplane.webhook_listener import WebhookListener
from tests.e2e.custom import served
from tests.e2e.genguard import Genguard
from tests.e2e.registrations import registered, rule
from webhook.server.overload import MOST_WAITED

pytestmark = pytest.mark.xdist_group("apiserver")

STATUS = ["widgets/status"]
TIMEOUT = 10


def test_a_write_that_is_shed_is_sent_again_and_mended(
    apiserver: ControlPlane, namespace: NamespaceFactory
) -> None:
    """genguard stands still for longer than an answer may take, and not for all of the timeout.

    Two writes wait for it: one that waits alone is answered, however late.
    """
    name = namespace(apiserver)
    rules = [rule(STATUS, ["UPDATE"])]
    with (
        Genguard() as guard,
        served(apiserver, name, status_subresource=True) as widgets,
        registered(apiserver, name, guard, phases=["mutate"], rules=rules, timeoutSeconds=TIMEOUT),
    ):
        names = ("one", "two")
        made = [
            widgets.put(widgets.create(one), "status", status={"observedGeneration": 1})
            for one in names
        ]
        guard.pause()
        writes = [
            threading.Thread(target=widgets.put, args=(one, "status"), kwargs={"status": {}})
            for one in made
        ]
        for write in writes:
            write.start()
        time.sleep(MOST_WAITED * TIMEOUT + 0.5)
        guard.go_on()
        for write in writes:
            write.join()
        assert 1 <= guard.metric("genguard_shed_total", reason="late") <= len(names)
        assert [widgets.get(one)["status"] for one in names] == [{"observedGeneration": 1}] * 2
        assert len(guard.log_lines("overloaded: reviews are shed")) == 1


@pytest.mark.parametrize("policy", ["Ignore", "Fail"])
def test_one_that_is_shed_again_and_again_is_for_the_failure_policy(
    apiserver: ControlPlane, namespace: NamespaceFactory, policy: str
) -> None:
    """It is asked at once and a second later; at the third the timeout is over."""
    name = namespace(apiserver)
    path = f"/api/v1/namespaces/{name}/configmaps"
    with (
        WebhookListener(apiserver.authority) as listener,
        listener.registered(apiserver, name, failurePolicy=policy, timeoutSeconds=2),
    ):
        listener.busy = 10
        if policy == "Fail":
            with pytest.raises(ApiError, match="failed calling webhook"):
                apiserver.client.post(path, {"metadata": {"name": "one"}})
        else:
            apiserver.client.post(path, {"metadata": {"name": "one"}})
        assert 1 <= len(listener.reviews) <= 2
        wait_until(lambda: len(listener.reviews) == 10 - listener.busy, what="every answer")
