"""Replicas that share a Secret renew it while writes go on: none of them ever fails."""

import base64
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

import manifests
from certs import inspect, installed_names, issue
from tests.beside import Beside
from tests.controlplane.client import ApiError, wait_until
from tests.controlplane.options import AUDITED
from tests.controlplane.plane import ControlPlane
from tests.e2e.account import Account, account
from tests.e2e.culprits import deployment
from tests.e2e.genguard import Genguard
from webhook.manifest.documents import collection_of, path_of
from webhook.manifest.rendering import Choices, is_registration, phase_of, render, secret_of

NAMESPACE = "genguard-certificates"
WRITTEN = "written"
SECRET = path_of(secret_of(NAMESPACE))
DEPLOYMENT = f"/apis/apps/v1/namespaces/{WRITTEN}/deployments/web"
PAIR = issue(names=installed_names("genguard", NAMESPACE), at=datetime.now(UTC))
DOCUMENTS = render(Choices(namespace=NAMESPACE), manifests.read, PAIR.files)
REGISTRATIONS = {
    phase_of(one["webhooks"][0]): path_of(one) for one in DOCUMENTS if is_registration(one)
}
SPOILT = {"data": {"tls.crt": base64.b64encode(b"spoilt").decode()}}


def secret(plane: ControlPlane) -> dict[str, bytes]:
    data = plane.client.get(SECRET).body["data"]
    return {name: base64.b64decode(value) for name, value in data.items()}


@contextmanager
def replica(owner: Account, lifetime: str) -> Iterator[Genguard]:
    flags = (f"--kubeconfig={owner.kubeconfig}", "--cert-secret=genguard-tls")
    with Genguard(*flags, f"--cert-lifetime={lifetime}") as guard:
        yield guard


def leads(guard: Genguard) -> bool:
    return guard.metric("genguard_leader") == 1


class Writes(Beside):
    """Writes and looks again and again; whatever goes wrong is kept."""

    def __init__(self, plane: ControlPlane, guards: dict[str, Genguard]) -> None:
        super().__init__()
        self._plane = plane
        self._guards = guards
        self.count = 0
        self.failed: list[str] = []

    def _run(self) -> None:
        client = self._plane.client_of("admin")
        while not self._over.wait(0.02):
            patch = {"metadata": {"annotations": {"example.org/count": f"{self.count}"}}}
            try:
                client.patch(DEPLOYMENT, patch)
            except ApiError as error:
                self.failed.append(str(error))
            self._look(client)
            self.count += 1
        client.close()

    def _look(self, client: Any) -> None:
        """Each replica shows what each registration trusts: a handshake by its bundle."""
        for phase, path in REGISTRATIONS.items():
            hooks = client.get(path).body["webhooks"]
            (encoded,) = {one["clientConfig"]["caBundle"] for one in hooks}
            bundle = base64.b64decode(encoded).decode()
            context = ssl.create_default_context(cadata=bundle)
            port = int(self._guards[phase].url("").split(":")[2].strip("/"))
            try:
                with (
                    socket.create_connection(("127.0.0.1", port)) as plain,
                    context.wrap_socket(plain, server_hostname="localhost"),
                ):
                    pass
            except OSError as error:
                self.failed.append(f"{phase}: {error}")


@contextmanager
def registered(plane: ControlPlane, guards: dict[str, Genguard]) -> Iterator[None]:
    """As installed, but that a write fails where a replica cannot be called."""
    made = [one for one in DOCUMENTS if is_registration(one)]
    for one in made:
        phase = phase_of(one["webhooks"][0])
        for webhook in one["webhooks"]:
            path = webhook["clientConfig"]["service"]["path"][1:]
            webhook["clientConfig"] = {
                "url": guards[phase].url(path),
                "caBundle": webhook["clientConfig"]["caBundle"],
            }
            webhook["failurePolicy"] = "Fail"
            webhook["timeoutSeconds"] = 30
            selector = {"matchLabels": {"kubernetes.io/metadata.name": WRITTEN}}
            webhook["namespaceSelector"] = selector
        plane.client.post(collection_of(one), one)
    try:
        yield
    finally:
        for one in made:
            plane.client.delete(path_of(one))


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """One of its own: on the shared one integration/test_registrations.py takes the same names."""
    with ControlPlane(AUDITED) as running:
        yield running


@pytest.fixture(scope="module")
def owner(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    """Who runs the replicas; a Deployment to write is there, and the Secret as installed."""
    kubeconfig = tmp_path_factory.mktemp("account") / "kubeconfig"
    with account(plane, NAMESPACE, kubeconfig) as found:
        (held,) = (one for one in DOCUMENTS if one["kind"] == "Secret")
        plane.client.post(collection_of(held), held)
        plane.client.post("/api/v1/namespaces", {"metadata": {"name": WRITTEN}})
        plane.client.post(DEPLOYMENT.rpartition("/")[0], deployment())
        yield found
        plane.client.delete(DEPLOYMENT)
        plane.client.delete(SECRET)
        lease = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/genguard"
        plane.client.delete(lease, check=False)


def test_rotated_again_and_again_with_the_leader_killed_and_the_secret_spoilt_no_write_fails(
    plane: ControlPlane, owner: Account
) -> None:
    with (
        replica(owner, "100s") as leader,
        replica(owner, "30s") as one,
        replica(owner, "30s") as two,
    ):
        wait_until(lambda: leads(leader), what="the first to lead")
        guards = {"intent": one, "mutate": two, "outcome": one}
        with registered(plane, guards), Writes(plane, guards) as writes:
            wait_until(lambda: two.metric("genguard_reviews_total") > 5, what="reviews")

            # Spoilt: who leads makes an authority, and dies before it has signed anything.
            plane.client.patch(SECRET, SPOILT)
            wait_until(lambda: "ca.key" in secret(plane), what="an authority prepared")
            leader.kill()
            halfway = secret(plane)
            assert halfway["tls.crt"] == b"spoilt"
            healed = wait_until(lambda: promoted(plane), 60, what="promoted by another one")
            assert secret(plane)["ca.key"] == halfway["ca.key"]
            assert leads(one) != leads(two)
            for guard in (one, two):
                assert guard.log_lines("certificate refused")
                served(guard, healed)

            # Spoilt again, and then nobody does anything: it grows old.
            plane.client.patch(SECRET, SPOILT)
            second = wait_until(lambda: promoted(plane, healed), 60, what="healed again")
            third = wait_until(lambda: promoted(plane, healed, second), 90, what="renewed by age")
            for guard in (one, two):
                served(guard, third)
            assert secret(plane)["ca.key"] == halfway["ca.key"]
        assert writes.failed == []
        assert writes.count > 100
        told = [line for guard in (one, two) for line in guard.log_lines("certificate promoted")]
        assert ["due for renewal" in line["reason"] for line in told[:3]] == [False, False, True]
        assert not [
            line for guard in (one, two) for line in guard.log_lines("certificate prepared")
        ]
        assert not one.log_lines("renewal of the certificate failed")


def promoted(plane: ControlPlane, *before: bytes) -> bytes | None:
    """The leaf to serve, once there is a good one that is not one of these."""
    files = secret(plane)
    found = inspect(files["tls.crt"], files["tls.key"], files["ca.crt"], at=datetime.now(UTC))
    return None if found.errors or files["tls.crt"] in before else files["tls.crt"]


def served(guard: Genguard, leaf: bytes) -> None:
    """It has loaded this one as it runs."""
    details = inspect(leaf, b"", at=datetime.now(UTC)).details
    assert details is not None

    def loaded() -> bool:
        lines = guard.log_lines("certificate reloaded")
        return details.fingerprint in [line["certificate"] for line in lines]

    wait_until(loaded, what="the new pair loaded")
