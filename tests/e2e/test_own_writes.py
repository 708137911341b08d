"""What genguard's own account writes: a status that it puts back is protected like any other."""

from pathlib import Path

import pytest

import manifests
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.controlplane.webhook_listener import WebhookListener
from tests.e2e.account import account
from tests.e2e.culprits import OLD_OPERATOR, deployment, zeroes_observed_generation
from tests.e2e.genguard import Genguard
from tests.e2e.registrations import registered
from webhook.manifest.rendering import Choices, is_registration, render

pytestmark = pytest.mark.xdist_group("apiserver")

HOME = "genguard-own-writes"


def test_a_status_that_genguard_puts_back_is_not_cleared_again(
    apiserver: ControlPlane, namespace: NamespaceFactory, tmp_path: Path
) -> None:
    """With the rights and the matchCondition of the manifests."""
    name = namespace(apiserver)
    pair = dict.fromkeys(("tls.crt", "tls.key", "ca.crt"), b"")
    documents = render(Choices(namespace=HOME), manifests.read, pair)
    registration = next(one for one in documents if is_registration(one))
    conditions = registration["webhooks"][0]["matchConditions"]
    path = f"/apis/apps/v1/namespaces/{name}/deployments"
    apiserver.client.post(path, deployment("web"))
    with (
        account(apiserver, HOME, tmp_path / "kubeconfig") as own,
        Genguard() as guard,
        registered(apiserver, name, guard, matchConditions=conditions),
        WebhookListener(apiserver.authority, zeroes_observed_generation) as culprit,
        culprit.registered(apiserver, name, ["deployments/status"], name=OLD_OPERATOR),
    ):
        own.client.patch(f"{path}/web/status", {"status": {"observedGeneration": 1}})
        assert apiserver.client.get(f"{path}/web").body["status"]["observedGeneration"] == 1
        assert culprit.reviews
