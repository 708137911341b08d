"""genguard's own account: it can verify what is found, and what it puts back is protected."""

from collections.abc import Iterator

import pytest

import manifests
from genguard.detection.finding import FoundObject
from genguard.generation.table import load_rows
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.controlplane.webhook_listener import WebhookListener
from tests.e2e.account import Account, account
from tests.e2e.culprits import OLD_OPERATOR, deployment, zeroes_observed_generation
from tests.e2e.genguard import Genguard
from tests.e2e.registrations import registered
from tests.unit.manifest_files import registrations
from webhook.cluster.connection import connected
from webhook.cluster.rest import Rest
from webhook.cluster.stored_objects import StoredObjects
from webhook.manifest.rendering import Choices, is_registration, render

HOME = "genguard-own-account"
PAIR = dict.fromkeys(("tls.crt", "tls.key", "ca.crt"), b"")


@pytest.fixture(scope="module")
def own(apiserver: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    with account(apiserver, HOME, tmp_path_factory.mktemp("own") / "kubeconfig") as found:
        yield found


async def test_every_object_that_is_watched_can_be_looked_up_and_no_secret(own: Account) -> None:
    """Else Events of it would say that they are unverified."""
    watched = {
        (group, version, resource)
        for rule in registrations()["outcome"]["webhooks"][0]["rules"]
        for group in rule["apiGroups"]
        for version in rule["apiVersions"]
        for resource in rule["resources"]
        if "/" not in resource
    }
    async with connected(str(own.kubeconfig), None) as api:
        existing = StoredObjects(Rest(api))

        async def look(group: str, version: str, resource: str) -> bool | None:
            namespace = "default" if namespaced[group, resource] else ""
            return await existing.exists(
                FoundObject(group, version, resource, namespace, "absent", "")
            )

        namespaced = {(row.group, row.resource): row.namespaced for row in load_rows()}
        assert {one: await look(*one) for one in watched} == dict.fromkeys(watched, False)
        assert await look("", "v1", "secrets") is None


def test_a_status_that_genguard_puts_back_is_not_cleared_again(
    apiserver: ControlPlane, namespace: NamespaceFactory, own: Account
) -> None:
    """With the rights and the matchCondition of the manifests."""
    name = namespace(apiserver)
    documents = render(Choices(namespace=HOME), manifests.read, PAIR)
    registration = next(one for one in documents if is_registration(one))
    conditions = registration["webhooks"][0]["matchConditions"]
    path = f"/apis/apps/v1/namespaces/{name}/deployments"
    apiserver.client.post(path, deployment("web"))
    with (
        Genguard() as guard,
        registered(apiserver, name, guard, matchConditions=conditions),
        WebhookListener(apiserver.authority, zeroes_observed_generation) as culprit,
        culprit.registered(apiserver, name, ["deployments/status"], name=OLD_OPERATOR),
    ):
        own.client.patch(f"{path}/web/status", {"status": {"observedGeneration": 1}})
        assert apiserver.client.get(f"{path}/web").body["status"]["observedGeneration"] == 1
        assert culprit.reviews
