"""A chain of webhooks beside a controller: in each order, by function or by URL."""

from typing import Any

import pytest

from genguard.testing import (
    FakeApiServer,
    LoopError,
    MutatingWebhook,
    NotConvergedError,
    RequestRefusedError,
    assert_converges,
    assert_no_loop,
    every_order,
)
from tests.controlplane.certificates import Authority
from tests.controlplane.webhook_listener import WebhookListener
from tests.differential.samples import definitions

WIDGETS = "widgets.example.org"
WIDGET: dict[str, Any] = {
    "apiVersion": "example.org/v1",
    "kind": "Widget",
    "metadata": {"name": "one"},
    "spec": {"size": 1},
}


def of(review: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = review["request"]["object"]
    return found


def labels(review):
    if "labels" in of(review)["metadata"]:
        return []
    return [{"op": "add", "path": "/metadata/labels", "value": {"team": "a"}}]


def appends(review):
    return [{"op": "add", "path": "/spec/log", "value": f"{of(review)['spec'].get('log', '')}+"}]


def zeroes(review):
    if "observedGeneration" not in of(review).get("status", {}):
        return []
    return [{"op": "replace", "path": "/status/observedGeneration", "value": 0}]


def refuses(_):
    return {"response": {"allowed": False, "status": {"message": "not on Fridays"}}}


def server(*webhooks: MutatingWebhook) -> FakeApiServer:
    return FakeApiServer(*definitions()["items"], webhooks=webhooks)


def report(fake: FakeApiServer) -> None:
    generation = fake.get(WIDGETS, "one")["metadata"]["generation"]
    status = {"observedGeneration": generation}
    fake.patch(WIDGETS, "one", {"status": status}, subresource="status", user="operator")


@pytest.mark.parametrize(
    "webhooks",
    every_order([MutatingWebhook("labels", labels), MutatingWebhook("looks", lambda _: [])]),
    ids=lambda webhooks: "-".join(one.name for one in webhooks),
)
def test_idempotent_webhooks_let_a_controller_converge_in_each_order(webhooks):
    fake = server(*webhooks)
    fake.create(WIDGET)
    assert fake.get(WIDGETS, "one")["metadata"]["labels"] == {"team": "a"}
    assert_converges(fake, WIDGETS, "one", step=lambda: report(fake))
    assert_no_loop(fake)


def test_what_a_webhook_appends_is_stored_and_counted_and_never_ends():
    fake = server(MutatingWebhook("appends", appends, [WIDGETS]))
    fake.create(WIDGET)

    def touch():
        size = {"size": 1}
        fake.apply({**WIDGET, "spec": size}, "gitops")
        report(fake)

    with pytest.raises(NotConvergedError, match="still writes after 5 rounds"):
        assert_converges(fake, WIDGETS, "one", step=touch, rounds=5)
    assert fake.get(WIDGETS, "one")["spec"]["log"].startswith("+" * 5)
    assert fake.get(WIDGETS, "one")["metadata"]["generation"] >= 5


def test_a_webhook_that_clears_a_report_is_named_as_certain():
    fake = server(MutatingWebhook("old-operator", zeroes, [f"{WIDGETS}/status"]))
    fake.create(WIDGET)
    for size in range(2, 8):
        fake.patch(WIDGETS, "one", {"spec": {"size": size}}, user="deployer")
        report(fake)
        report(fake)
    with pytest.raises(LoopError) as found:
        assert_no_loop(fake)
    (actor,) = found.value.findings[0].actors[:1]
    assert (actor.name, actor.confidence.value) == ("old-operator/old-operator", "certain")


def test_a_webhook_is_called_for_its_own_resources_alone():
    fake = server(MutatingWebhook("refuses", refuses, ["pods"]))
    fake.create(WIDGET)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}}
    pod["spec"] = {"containers": [{"name": "c", "image": "c"}]}
    with pytest.raises(RequestRefusedError, match=r'"refuses" denied the request: not on Fridays'):
        fake.create(pod)


def test_a_webhook_may_be_a_server(tmp_path):
    authority = Authority()
    ca_file = tmp_path / "ca.crt"
    ca_file.write_bytes(authority.pair.certificate)

    def patch(request):
        return labels({"request": request})

    with WebhookListener(authority, patch) as listener:
        url = listener.url
        fake = server(MutatingWebhook("labels", url, [WIDGETS], ca_file=ca_file))
        assert fake.create(WIDGET)["metadata"]["labels"] == {"team": "a"}
        assert len(listener.reviews) == 1
    with pytest.raises(
        RequestRefusedError, match=r'"labels" denied the request: https://127\.0\.0\.1'
    ):
        fake.create({**WIDGET, "metadata": {"name": "two"}})


def test_two_webhooks_of_one_name_are_refused():
    with pytest.raises(ValueError, match="one name"):
        server(MutatingWebhook("a", labels), MutatingWebhook("a", appends))
