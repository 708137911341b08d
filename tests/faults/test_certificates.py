"""The certificate of three replicas is changed 50 times under load, and is spoilt once between.

The time between trusting an authority and serving what it has signed is 30 s where nobody can look
into the API server's copy of a registration (certs/rotation.py). Here it is as long as the API
server takes, which a dry run shows: a label that came with the bundle, or later, is called for.
"""

import base64
import http.client
import json
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import pytest

import certs
import manifests
from certs.files import CA_FILE, CA_KEY_FILE, CERT_FILE, KEY_FILE
from certs.pem import read_certificates, write_certificate
from tests.beside import Beside
from tests.controlplane.client import wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.e2e.account import Account, account
from tests.e2e.genguard import Genguard
from tests.e2e.registrations import PHASES, PROBE_LABEL, called, registered
from tests.e2e.traffic import PATIENCE, Traffic, passed_unseen
from tests.faults.fleet import Fleet
from tests.reviews import make_review
from webhook.manifest.documents import collection_of, path_of
from webhook.manifest.rendering import Choices, is_registration, pair_files, render, secret_of

NAMESPACE = "genguard-faults"
ROTATIONS = 50
SPOILT_AFTER = 25
SPOILT = b"spoilt"
TRUSTED = 3
"""Authorities in a bundle: the new one, and two of before."""
NAMES = certs.installed_names("genguard", NAMESPACE)
PAIR = certs.issue(names=NAMES, at=datetime.now(UTC))
DOCUMENTS = render(Choices(namespace=NAMESPACE), manifests.read, pair_files(PAIR))
REGISTRATIONS = [path_of(one) for one in DOCUMENTS if is_registration(one)]
SECRET = path_of(secret_of(NAMESPACE))


@pytest.fixture
def owner(apiserver: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    """Who runs the replicas; the Secret is there as installed."""
    kubeconfig = tmp_path_factory.mktemp("account") / "kubeconfig"
    with account(apiserver, NAMESPACE, kubeconfig) as found:
        (held,) = (one for one in DOCUMENTS if one["kind"] == "Secret")
        apiserver.client.post(collection_of(held), held)
        yield found
        apiserver.client.delete(SECRET)
        lease = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/genguard"
        apiserver.client.delete(lease, check=False)


class Newcomers(Beside):
    """Whoever asks makes a connection for each review, and trusts what the registrations trust.

    asked   reviews that were answered
    failed  why others were not
    """

    def __init__(self, plane: ControlPlane, fleet: Fleet) -> None:
        super().__init__()
        self._client, self._fleet = plane.client_of("admin"), fleet
        self.asked = 0
        self.failed: list[str] = []

    def _run(self) -> None:
        while not self._over.wait(0.01):
            bundle = _bundle(self._client, REGISTRATIONS[0])
            try:
                self._ask(bundle)
            except (OSError, http.client.HTTPException) as error:
                # Who has looked too long ago looks again, as an API server does.
                if _bundle(self._client, REGISTRATIONS[0]) == bundle:
                    self.failed.append(str(error))
            else:
                self.asked += 1
        self._client.close()

    def _ask(self, bundle: bytes) -> None:
        trust = ssl.create_default_context(cadata=bundle.decode())
        at = urlsplit(self._fleet.url("mutate"))
        connection = http.client.HTTPSConnection(at.netloc, timeout=PATIENCE, context=trust)
        try:
            body = json.dumps(make_review(new={"status": {}}, old={}, subresource="status"))
            connection.request("POST", at.path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            if answer.status != 200:
                self.failed.append(f"{answer.status}: {answer.read()!r}")
        finally:
            connection.close()


def test_rotated_50_times_and_spoilt_once_no_write_fails_and_no_newcomer(
    apiserver: ControlPlane, namespace: NamespaceFactory, owner: Account
) -> None:
    """genguard's own leader writes each new bundle into the registrations, as it always does."""
    plane, where = apiserver, namespace(apiserver)
    flags = (f"--kubeconfig={owner.kubeconfig}", "--cert-secret=genguard-tls")
    with Fleet(*flags, ca=PAIR.ca_pem) as fleet:
        leads = lambda: fleet.metric("genguard_leader") == 1  # noqa: E731
        wait_until(leads, what="one that leads")
        with (
            registered(plane, where, fleet, failurePolicy="Fail", timeoutSeconds=PATIENCE),
            Traffic(plane, where, writers=2) as traffic,
            Newcomers(plane, fleet) as newcomers,
        ):
            unseen = passed_unseen(plane)
            for number in range(ROTATIONS):
                if number == SPOILT_AFTER:
                    with _spoilt(plane, fleet.endpoints):
                        traffic.more(20)
                leaf = _rotate(plane, fleet, where, f"rotation-{number}")
                _wait_until_loaded(fleet, leaf)
                traffic.more(5)
        assert traffic.failures == []
        assert newcomers.failed == []
        assert newcomers.asked >= ROTATIONS
        assert passed_unseen(plane) == unseen
    print(f"{ROTATIONS} rotations, {traffic.written} writes, {newcomers.asked} newcomers")


def _rotate(plane: ControlPlane, fleet: Fleet, where: str, label: str) -> str:
    """A leaf of another authority, by the steps of certs/rotation.py; its fingerprint."""
    old = [write_certificate(one) for one in read_certificates(_authorities(plane))]
    now = datetime.now(UTC)
    authority = certs.issue_authority(at=now)
    bundle = b"".join((authority.cert_pem, *old[: TRUSTED - 1]))
    _put(plane, {CA_FILE: bundle, CA_KEY_FILE: authority.key_pem})
    for path in REGISTRATIONS:
        trusts = lambda path=path: _bundle(plane.client, path) == bundle  # noqa: E731
        wait_until(trusts, what="the bundle in the registration")
        selector = {"matchLabels": {PROBE_LABEL: label}}
        change = {"op": "replace", "path": "/webhooks/1/objectSelector", "value": selector}
        plane.client.patch(path, [change])
    wait_until(lambda: called(plane, where, fleet, label, PHASES), what="the bundle in use")
    leaf = certs.issue(names=NAMES, at=now, authority=authority)
    _put(plane, {CERT_FILE: leaf.cert_pem, KEY_FILE: leaf.key_pem})
    facts = certs.inspect(leaf.cert_pem, b"", at=now).facts
    assert facts is not None
    return facts.fingerprint


@contextmanager
def _spoilt(plane: ControlPlane, guards: Sequence[Genguard]) -> Iterator[None]:
    """Every replica has seen it, and refused it. The leader mends it meanwhile."""
    _put(plane, {CERT_FILE: SPOILT})
    for guard in guards:
        refused = lambda guard=guard: guard.log_lines("certificate refused")  # noqa: E731
        wait_until(refused, what="refused")
        assert guard.ops("/readyz")[0] == 200
    yield
    mended = lambda: base64.b64decode(_secret(plane)[CERT_FILE]) != SPOILT  # noqa: E731
    wait_until(mended, 60, what="a new leaf")


def _authorities(plane: ControlPlane) -> bytes:
    return base64.b64decode(_secret(plane)[CA_FILE])


def _secret(plane: ControlPlane) -> dict[str, str]:
    data: dict[str, str] = plane.client.get(SECRET).body["data"]
    return data


def _put(plane: ControlPlane, files: dict[str, bytes]) -> None:
    data = {name: base64.b64encode(content).decode() for name, content in files.items()}
    plane.client.patch(SECRET, {"data": data})


def _bundle(client: Any, path: str) -> bytes:
    first = client.get(path).body["webhooks"][0]
    return base64.b64decode(first["clientConfig"]["caBundle"])


def _wait_until_loaded(fleet: Fleet, leaf: str) -> None:
    for guard in fleet.endpoints:
        lines = lambda guard=guard: guard.log_lines("certificate reloaded")  # noqa: E731
        wait_until(
            lambda lines=lines: leaf in [one["certificate"] for one in lines()], what="loaded"
        )
