"""`genguard lint --kubeconfig` reads what a real API server has registered."""

import json

from click.testing import CliRunner

from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.controlplane.webhook_listener import WebhookListener
from webhook.cli import main


def test_what_is_registered_is_checked(
    apiserver: ControlPlane, namespace: NamespaceFactory
) -> None:
    name = namespace(apiserver)
    with (
        WebhookListener(apiserver.authority) as listener,
        listener.registered(
            apiserver, name, ["pods/*"], name="greedy", timeoutSeconds=20, failurePolicy="Fail"
        ),
    ):
        arguments = ["lint", "-o", "json", "--kubeconfig", str(apiserver.kubeconfig)]
        result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 1, result.output
    found = [json.loads(line) for line in result.stdout.splitlines()]
    told = {
        (one["id"], one["severity"])
        for one in found
        if one.get("webhook") == "greedy/reviews.example.org"
    }
    # The authority of the tests is made for some days only.
    assert told == {
        ("ca-bundle", "warning"),
        ("made-by-controllers", "warning"),
        ("pods-binding", "error"),
        ("status-mutated", "warning"),
        ("timeout-long", "warning"),
    }
    assert found[-1]["type"] == "summary"
