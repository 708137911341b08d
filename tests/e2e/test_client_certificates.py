"""An API server that shows genguard who it is, as manifests/README.md tells how."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.certificates import Authority
from tests.controlplane.client import wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.options import Options
from tests.controlplane.plane import ControlPlane
from tests.e2e.custom import served
from tests.e2e.genguard import Genguard
from tests.e2e.registrations import registered, rule

NAME = "apiserver-webhook-client"
PLUGINS = ("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook")
REFUSED = "genguard_refused_requests_total"


@pytest.fixture
def authority() -> Authority:
    return Authority("webhook-clients")


@pytest.fixture
def guard(authority: Authority, tmp_path: Path) -> Iterator[Genguard]:
    ca_file = tmp_path / "clients.crt"
    ca_file.write_bytes(authority.pair.certificate)
    with Genguard(f"--client-ca-file={ca_file}", f"--client-name={NAME}") as started:
        yield started


@pytest.fixture
def plane(authority: Authority, guard: Genguard, tmp_path: Path) -> Iterator[ControlPlane]:
    flag = f"--admission-control-config-file={configured(authority, guard, tmp_path)}"
    with ControlPlane(Options(apiserver_flags=(flag,))) as started:
        yield started


def configured(authority: Authority, guard: Genguard, folder: Path) -> Path:
    """An AdmissionConfiguration whose kubeconfig has a certificate for this one server."""
    certificate, key = authority.issue_client(NAME).write(folder, "apiserver")
    kubeconfig = folder / "webhooks.kubeconfig"
    user = {"client-certificate": str(certificate), "client-key": str(key)}
    users = [{"name": f"127.0.0.1:{guard.admission_port}", "user": user}]
    kubeconfig.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "users": users}))
    settings = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "WebhookAdmissionConfiguration",
        "kubeConfigFile": str(kubeconfig),
    }
    plugins = [{"name": name, "configuration": settings} for name in PLUGINS]
    kind = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration"}
    path = folder / "admission.yaml"
    path.write_text(json.dumps({**kind, "plugins": plugins}))
    return path


def test_the_api_server_is_answered_and_when_its_authority_is_no_longer_trusted_is_not(
    plane: ControlPlane, guard: Genguard, namespace: NamespaceFactory, tmp_path: Path
) -> None:
    name = namespace(plane)
    rules = [rule(["widgets/status"], ["UPDATE"])]
    with (
        served(plane, name, status_subresource=True) as widgets,
        registered(plane, name, guard, phases=["mutate"], rules=rules),
    ):
        made = widgets.create()
        made = widgets.put(made, "status", status={"observedGeneration": 1})
        made = widgets.put(made, "status", status={})
        assert made["status"] == {"observedGeneration": 1}
        assert guard.metric(REFUSED) == 0
        (tmp_path / "clients.crt").write_bytes(Authority("others").pair.certificate)
        wait_until(lambda: guard.log_lines("client authority reloaded"), what="the new authority")

        def let_through() -> bool:
            """failurePolicy Ignore: the write passes, and nobody mends it."""
            passed: bool = widgets.put(widgets.get(), "status", status={})["status"] == {}
            return passed

        # Its connection is answered once more and then closed.
        wait_until(let_through, what="a write that genguard does not see")
        assert guard.metric(REFUSED, reason="untrusted_client") >= 1
        assert len(guard.log_lines("clients are refused")) == 1
