"""doctor finds faults planted on a real API server, and the command that it names mends each."""

import json
import os
import shlex
import subprocess
from base64 import b64encode
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from certs import issue, issue_authority, service_names
from tests.controlplane.build import binary
from tests.controlplane.client import wait_until
from tests.controlplane.plane import ControlPlane
from tests.e2e.genguard import Genguard
from tests.e2e.kubelet import PLANE, SYSTEM, Kubelet
from webhook.cli import main

API = "/apis/admissionregistration.k8s.io/v1"
MUTATING = f"{API}/mutatingwebhookconfigurations"
VALIDATING = f"{API}/validatingwebhookconfigurations"
MUTATE = f"{MUTATING}/zzzzzz-genguard-mutate"
OUTCOME = f"{VALIDATING}/zzzzzz-genguard-outcome"
HOME = f"/api/v1/namespaces/{SYSTEM}"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{SYSTEM}/deployments/genguard"
NOW = datetime.now(UTC)
CHECKS = [
    *("api-server", "installed", "pods", "certificate", "registered", "alone"),
    *("rules", "reverted", "settings"),
    *("ca-bundle", "order", "reached", "phases"),
    *("mode", "last-seen", "store", "tasks", "incomplete"),
    *("conditions", "rights", "clock", "kinds", "nodes", "culprits"),
]

Plant = Callable[[ControlPlane], Any]


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(PLANE) as plane, Kubelet(plane):
        yield plane


@pytest.fixture(scope="module")
def installed(plane: ControlPlane) -> ControlPlane:
    assert genguard(plane, "install", "--audit-only", "--yes").exit_code == 0
    return plane


def genguard(plane: ControlPlane, *arguments: str) -> Any:
    return CliRunner().invoke(main, [*arguments, f"--kubeconfig={plane.kubeconfig}"])


def examined(plane: ControlPlane) -> dict[str, dict[str, str]]:
    """The lines of doctor, by what they are about; the worst where there are several."""
    result = genguard(plane, "doctor", "-o", "json")
    *lines, summary = (json.loads(line) for line in result.stdout.splitlines())
    ranks = ["ok", "unknown", "warn", "fail"]
    assert result.exit_code == any(line["level"] in ("warn", "fail") for line in lines)
    assert summary["type"] == "summary"
    assert sum(summary[level] for level in ranks) == len(lines)
    lines.sort(key=lambda line: ranks.index(line["level"]))
    return {line["id"]: line for line in lines}


def faults(lines: dict[str, dict[str, str]]) -> dict[str, str]:
    is_fault = {"warn", "fail"}
    return {name: line["level"] for name, line in lines.items() if line["level"] in is_fault}


def mend(plane: ControlPlane, command: str, folder: Path) -> None:
    """Runs it in a shell, as somebody would who copies it, and agrees to what it asks."""
    if command.startswith("genguard "):
        result = genguard(plane, *shlex.split(command)[1:], "--yes")
        assert result.exit_code == 0, result.output
        return
    (folder / "kubectl").symlink_to(binary("kubectl"))
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    env = {"PATH": path, "KUBECONFIG": str(plane.kubeconfig), "HOME": str(folder)}
    subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], env=env, check=True, timeout=60)


def test_all_is_well_where_it_is_installed_and_nothing_was_touched(
    installed: ControlPlane,
) -> None:
    before = installed.client.get(MUTATE).body
    lines = examined(installed)
    assert faults(lines) == {}
    assert list(lines) == CHECKS
    assert "audit-only" in lines["reached"]["message"]
    assert lines["phases"]["message"] == "20 of 20 dry runs were seen in all phases by one pod"
    assert lines["mode"]["message"] == "every pod that answers is audit-only, as deployed"
    assert "2 of 2" in lines["pods"]["message"]
    assert installed.client.get(MUTATE).body == before
    assert installed.client.get("/api/v1/podtemplates").body["items"] == []


def changed(path: str, pointer: str, value: Any, op: str = "add") -> Plant:
    return lambda plane: plane.client.patch(path, [{"op": op, "path": pointer, "value": value}])


def deleted(path: str) -> Plant:
    return lambda plane: plane.client.delete(path)


def bundle(age: timedelta) -> str:
    """Of an authority of somebody else, made so long ago."""
    return b64encode(issue_authority(at=NOW - age, lifetime=timedelta(days=365)).cert_pem).decode()


def slipped_in_behind(plane: ControlPlane) -> None:
    (hook,) = plane.client.get(MUTATE).body["webhooks"]
    late = {"name": "late.example.org", "rules": hook["rules"], "failurePolicy": "Ignore"}
    late |= {"sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 1}
    late["clientConfig"] = {"url": "https://127.0.0.1:9/"}
    body = {"metadata": {"name": "zzzzzzz-late"}, "webhooks": [late]}
    plane.client.post(MUTATING, body)


def worn_out(plane: ControlPlane) -> None:
    """A pair whose time is over, in the Secret."""
    names = service_names("genguard", SYSTEM)
    pair = issue(names=names, at=NOW - timedelta(days=400))
    files = {"tls.crt": pair.cert_pem, "tls.key": pair.key_pem, "ca.crt": pair.ca_pem or b""}
    data = {name: b64encode(content).decode() for name, content in files.items()}
    plane.client.patch(f"{HOME}/secrets/genguard-tls", {"data": data})


INSTALL = "genguard install --audit-only"
NEVER = {"name": "never", "expression": "false"}
SELECTOR = "/webhooks/0/namespaceSelector"


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(
            (
                deleted(OUTCOME),
                {"registered": "fail"},
                "not all registered: outcome is missing",
                INSTALL,
            ),
            id="a registration is gone",
        ),
        pytest.param(
            (
                changed(MUTATE, "/webhooks/0/rules/9/resources/0", "deployments/scale", "replace"),
                {"rules": "fail"},
                "zzzzzz-genguard-mutate is not called for UPDATE deployments/status.apps",
                INSTALL,
            ),
            id="a rule has lost a resource",
        ),
        pytest.param(
            (
                changed(OUTCOME, SELECTOR, {}),
                {"settings": "fail"},
                "zzzzzz-genguard-outcome watches kube-system, kube-node-lease, genguard-system",
                INSTALL,
            ),
            id="it watches what it lives by",
        ),
        pytest.param(
            (
                changed(MUTATE, "/webhooks/0/clientConfig/caBundle", bundle(timedelta())),
                {"ca-bundle": "fail", "reached": "fail"},
                "does not verify the server's certificate: no certificate in the CA bundle",
                INSTALL,
            ),
            id="the bundle is another authority's",
        ),
        pytest.param(
            (
                worn_out,
                {"certificate": "fail", "ca-bundle": "fail"},
                "the certificate expired at",
                INSTALL,
            ),
            id="the certificate is too old",
        ),
        pytest.param(
            (
                slipped_in_behind,
                {"order": "warn"},
                "zzzzzzz-late is called after zzzzzz-genguard-mutate",
                "kubectl get mutatingwebhookconfiguration zzzzzzz-late",
            ),
            id="another comes after it",
        ),
        pytest.param(
            (
                changed(MUTATE, "/webhooks/0/matchConditions/-", NEVER),
                {"reached": "fail"},
                "a dry run passed without mutate seeing it",
                INSTALL,
            ),
            id="it is never called, for whatever reason",
        ),
        pytest.param(
            (
                changed(
                    f"/apis/apps/v1/namespaces/{SYSTEM}/deployments/genguard", "/spec/replicas", 0
                ),
                {"pods": "fail", "reached": "fail"},
                "scaled to 0",
                f"kubectl -n {SYSTEM} scale deployment/genguard --replicas=2",
            ),
            id="it is scaled to nothing",
        ),
        pytest.param(
            (
                deleted("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/genguard"),
                {"installed": "fail", "rights": "fail"},
                "missing: clusterrolebinding/genguard",
                INSTALL,
            ),
            id="its rights are gone",
        ),
    ],
)
def test_a_planted_fault_is_found_and_the_command_mends_it(
    installed: ControlPlane,
    tmp_path: Path,
    fault: tuple[Plant, dict[str, str], str, str],
) -> None:
    plant, found, told, command = fault
    plant(installed)
    wait_until(lambda: faults(examined(installed)) == found, what="the fault found, and no other")
    first = next(line for line in examined(installed).values() if line["id"] == next(iter(found)))
    assert told in first["message"]
    assert first["fix"].startswith(command)
    mend(installed, first["fix"], tmp_path)
    wait_until(lambda: faults(examined(installed)) == {}, what="all well again")
    installed.client.delete(f"{MUTATING}/m-zzzzzzz-late", check=False)


def test_a_server_outside_is_examined_as_far_as_it_can_be_seen(
    installed: ControlPlane, tmp_path: Path
) -> None:
    assert genguard(installed, "uninstall", "--yes").exit_code == 0
    (absent,) = (line for line in examined(installed).values() if line["level"] != "ok")
    assert (absent["id"], absent["fix"]) == ("installed", "genguard install")
    with Genguard() as guard:
        flags = [f"--url={guard.url('')}", f"--ca-file={guard.folder}/certs/ca.crt", "--yes"]
        assert genguard(installed, "install", *flags).exit_code == 0
        lines = examined(installed)
        assert faults(lines) == {}
        assert lines["culprits"]["level"] == "unknown"
        assert "was not asked" in lines["culprits"]["message"]
        absent = ("installed", "pods", "mode")
        assert list(lines) == [name for name in CHECKS if name not in absent]
        assert "enforcing" in lines["reached"]["message"]
        url = guard.url("").rstrip("/")
    lines = examined(installed)
    assert faults(lines) == {"reached": "fail"}
    assert lines["reached"]["fix"] == f"genguard install --url {url} --ca-file ca.crt"
    assert genguard(installed, "uninstall", "--yes").exit_code == 0
