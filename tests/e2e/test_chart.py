"""The Helm chart on a real API server: one command installs and registers, and one removes."""

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
from tests.e2e.kubelet import PLANE, Kubelet
from tests.e2e.verbs import run
from tools.binaries import binary
from tools.chart import CHART
from webhook.manifest.documents import path_of
from webhook.manifest.rendering import REGISTRATIONS, registration_of, secret_of

SECRET = path_of(secret_of(SYSTEM))


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
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(PLANE) as plane:
        yield plane


@pytest.fixture(scope="module")
def helm(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    plane.client.post("/api/v1/namespaces", {"metadata": {"name": SYSTEM}})
    return Helm(plane, tmp_path_factory.mktemp("helm"))


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"auditOnly": True, "opsAuth": True},
        {"ha": True, "alertmanagers": ["http://alertmanager.monitoring.svc:9093"]},
    ],
)
def test_what_is_rendered_is_accepted_without_a_warning(
    helm: Helm, plane: ControlPlane, given: dict[str, Any]
) -> None:
    flags = [f"--set-json={name}={json.dumps(value)}" for name, value in given.items()]
    rendered = helm.must("template", "genguard", str(CHART), *flags)
    words = ("apply", "--dry-run=server", "-f", "-")
    applied = plane.kubectl(*words, stdin=rendered)
    assert applied.stderr == ""
    count = len([one for one in yaml.safe_load_all(rendered) if one])
    assert len(applied.stdout.splitlines()) == count


def webhooks(plane: ControlPlane) -> list[dict[str, Any]] | None:
    """The webhooks of the three registrations; None where there is no registration."""
    paths = [path_of(registration_of(kind, name)) for kind, name in REGISTRATIONS]
    found = [plane.client.get(path, check=False) for path in paths]
    if {one.status for one in found} == {404}:
        return None
    return [hook for one in found for hook in one.body.get("webhooks") or ()]


def bundles(plane: ControlPlane) -> set[str]:
    return {one["clientConfig"].get("caBundle", "") for one in webhooks(plane) or ()}


def left(plane: ControlPlane) -> list[str]:
    """What was there to register alone, and for a trial."""
    kinds = "clusterroles,clusterrolebindings,namespaces,validatingwebhookconfigurations"
    own = plane.kubectl("-n", SYSTEM, "get", "sa,roles,rolebindings,cm,jobs", "-o", "name").stdout
    names = (own + plane.kubectl("get", kinds, "-o", "name").stdout).split()
    return [one for one in names if "genguard-register" in one or "genguard-test-" in one]


def test_nothing_is_registered_while_the_server_is_not_ready(
    helm: Helm, plane: ControlPlane, tmp_path: Path
) -> None:
    """No kubelet is there, so no pod starts; the Job is played by the test."""
    helm.must("install", "genguard", str(CHART), "--no-hooks")
    assert webhooks(plane) == []
    rendered = helm.must("template", "genguard", str(CHART), "-s", "templates/register.yaml")
    (given,) = (one for one in yaml.safe_load_all(rendered) if one["kind"] == "ConfigMap")
    file = tmp_path / "registrations.yaml"
    file.write_text(given["data"]["registrations.yaml"])
    tried = run(plane, "install", "--yes", f"--registrations-file={file}", "--timeout=2s", code=1)
    assert "pods are ready" in tried.err
    assert webhooks(plane) == []
    helm.must("uninstall", "genguard", "--wait")
    assert webhooks(plane) is None


def test_install_and_uninstall_leave_a_release_to_helm(helm: Helm, plane: ControlPlane) -> None:
    helm.must("install", "genguard", str(CHART), "--no-hooks")
    for register in ("true", "false"):
        helm.must("upgrade", "genguard", str(CHART), "--no-hooks", f"--set=register={register}")
        before = plane.client.get(SECRET).body
        for verb in ("install", "uninstall"):
            for flag in ("--yes", "--dry-run"):
                refused = run(plane, verb, flag, code=1)
                assert refused.out == ""
                assert f"is managed by the Helm release genguard -n {SYSTEM}. " in refused.err
                assert f"helm upgrade genguard CHART -n {SYSTEM} --reuse-values" in refused.err
                assert f"helm uninstall genguard -n {SYSTEM}" in refused.err
        assert plane.client.get(SECRET).body == before
    helm.must("upgrade", "genguard", str(CHART), "--no-hooks", "--set=register=true")
    run(plane, "uninstall", "--registrations-only", "--yes")
    assert webhooks(plane) is None, "the off switch is for every genguard"
    helm.must("uninstall", "genguard", "--wait")
    run(plane, "uninstall", "--dry-run")


def test_it_is_installed_registered_upgraded_rolled_back_and_removed(
    helm: Helm, plane: ControlPlane
) -> None:
    with Kubelet(plane) as kubelet:
        told = helm.must("install", "genguard", str(CHART), "--set=auditOnly=true")
        assert kubelet.said is not None
        said = kubelet.said.read_text()
        assert all(phase in said for phase in ("1/3", "2/3", "3/3")), said
        assert "is registered" in told
        wait_until(lambda: left(plane) == [], what="what registered it gone")

        data = plane.client.get(SECRET).body["data"]
        pair = {name: base64.b64decode(value) for name, value in data.items()}
        names = installed_names("genguard", SYSTEM)
        at = datetime.now(UTC)
        seen = inspect(pair["tls.crt"], pair["tls.key"], pair["ca.crt"], at=at, names=names)
        assert seen.problems == ()
        assert len(webhooks(plane) or ()) == len(REGISTRATIONS)
        assert bundles(plane) == {data["ca.crt"]}

        widget = {"group": "example.com", "version": "v1", "resource": "widgets"}
        upgrade = ("upgrade", "genguard", str(CHART), "--reuse-values")
        helm.must(
            *upgrade, "--set=auditOnly=false", f"--set-json=customResources={json.dumps([widget])}"
        )
        assert "widgets" in str(webhooks(plane))
        assert (plane.client.get(SECRET).body["data"], bundles(plane)) == (data, {data["ca.crt"]})
        helm.must("rollback", "genguard", "1")
        assert "widgets" not in str(webhooks(plane)), "the values say what is watched"
        assert (plane.client.get(SECRET).body["data"], bundles(plane)) == (data, {data["ca.crt"]})
        wait_until(lambda: left(plane) == [], what="what registered it gone")

        helm.must(*upgrade, "--set=register=false")
        assert webhooks(plane) is None
        helm.must(*upgrade, "--set=register=true")
        assert len(webhooks(plane) or ()) == len(REGISTRATIONS)
        helm.must("uninstall", "genguard", "--wait")
        assert webhooks(plane) is None
        assert plane.client.get(SECRET, check=False).status == 404
