"""The Helm chart on a real API server: the server first, its certificate, the registrations."""

import base64
import json
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from certs import inspect, installed_names
from tests.controlplane.client import wait_until
from tests.controlplane.granting import SYSTEM
from tests.controlplane.plane import ControlPlane
from tests.e2e.account import Account
from tests.e2e.genguard import Genguard
from tests.supply.binaries import binary
from tests.supply.chart import CHART
from webhook.manifest.documents import path_of
from webhook.manifest.rendering import REGISTRATIONS, registration_of, secret_of

SECRET = path_of(secret_of(SYSTEM))
DEPLOYMENT = f"/apis/apps/v1/namespaces/{SYSTEM}/deployments/genguard"


class Helm:
    """Helm with the kubeconfig of a cluster, and folders of its own."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self._plane = plane
        self._env = {"HOME": str(folder)} | {
            f"HELM_{name}_HOME": str(folder / name) for name in ("CACHE", "CONFIG", "DATA")
        }

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [str(binary("helm")), *words, f"--kubeconfig={self._plane.kubeconfig}"]
        command += ["--namespace", SYSTEM]
        return subprocess.run(
            command, env=self._env, capture_output=True, text=True, timeout=180, check=False
        )

    def must(self, *words: str) -> str:
        done = self(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def helm(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Helm]:
    found = Helm(cluster, tmp_path_factory.mktemp("helm"))
    cluster.client.post("/api/v1/namespaces", {"metadata": {"name": SYSTEM}}, check=False)
    yield found
    found("uninstall", "genguard", "--ignore-not-found")
    cluster.kubectl("delete", "--wait=false", "namespace", SYSTEM)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"auditOnly": True, "watch": True, "opsAuth": True},
        {"ha": True, "alertmanagers": ["http://alertmanager.monitoring.svc:9093"]},
    ],
)
def test_what_is_rendered_is_accepted_without_a_warning(
    helm: Helm, cluster: ControlPlane, given: dict[str, Any]
) -> None:
    flags = [f"--set-json={name}={json.dumps(value)}" for name, value in given.items()]
    rendered = helm.must("template", "genguard", str(CHART), "--set=register=true", *flags)
    words = ("apply", "--dry-run=server", "-f", "-")
    applied = cluster.kubectl(*words, stdin=rendered)
    assert applied.stderr == ""
    count = len([one for one in yaml.safe_load_all(rendered) if one])
    assert len(applied.stdout.splitlines()) == count


def registrations(cluster: ControlPlane) -> list[dict[str, Any]]:
    paths = [path_of(registration_of(kind, name)) for kind, name in REGISTRATIONS]
    answers = [cluster.client.get(path, check=False) for path in paths]
    return [answer.body for answer in answers if answer.status == 200]


def bundles(cluster: ControlPlane) -> set[str]:
    return {
        one["webhooks"][0]["clientConfig"].get("caBundle", "") for one in registrations(cluster)
    }


def test_it_is_installed_registered_upgraded_rolled_back_and_removed(
    helm: Helm, cluster: ControlPlane, tmp_path: Path
) -> None:
    early = helm("install", "genguard", str(CHART), "--set=register=true")
    assert "no pod of genguard is ready" in early.stderr
    assert cluster.client.get(DEPLOYMENT, check=False).status == 404

    told = helm.must("install", "genguard", str(CHART), "--set=auditOnly=true")
    assert "The API server does not call it yet" in told
    assert registrations(cluster) == []
    assert not cluster.client.get(SECRET).body.get("data")

    owner = Account(cluster, SYSTEM, tmp_path / "kubeconfig")
    flags = ("--tls-cert-file=/none/tls.crt", "--tls-private-key-file=/none/tls.key")
    with Genguard(f"--kubeconfig={owner.kubeconfig}", "--cert-secret=genguard-tls", *flags):
        data = wait_until(lambda: cluster.client.get(SECRET).body.get("data"), what="a pair")
        pair = {name: base64.b64decode(value) for name, value in data.items()}
        names = installed_names("genguard", SYSTEM)
        at = datetime.now(UTC)
        seen = inspect(pair["tls.crt"], pair["tls.key"], pair["ca.crt"], at=at, names=names)
        assert seen.problems == ()

        def is_ready() -> bool:
            status = cluster.client.get(DEPLOYMENT).body.get("status", {})
            return status.get("readyReplicas", 0) > 0

        wait_until(is_ready, 60, what="the Deployment to be ready")
        upgrade = ("upgrade", "genguard", str(CHART), "--reuse-values")
        told = helm.must(*upgrade, "--set=register=true")
        assert "is registered; it watches, and changes nothing" in told
        assert len(registrations(cluster)) == len(REGISTRATIONS)
        wait_until(
            lambda: bundles(cluster) == {data["ca.crt"]}, 30, what="the bundles to be written"
        )

    # Nobody repairs anything from here on: what is still there was left alone.
    helm.must(*upgrade, "--set=auditOnly=false", "--set=watch=true")
    assert cluster.client.get(SECRET).body["data"] == data
    assert bundles(cluster) == {data["ca.crt"]}
    helm.must("rollback", "genguard", "2")
    assert cluster.client.get(SECRET).body["data"] == data
    assert bundles(cluster) == {data["ca.crt"]}
    helm.must(*upgrade, "--set=register=false")
    assert registrations(cluster) == []
    helm.must("uninstall", "genguard", "--wait")
    assert cluster.client.get(SECRET, check=False).status == 404
