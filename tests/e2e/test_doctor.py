"""doctor finds faults planted on a real API server, and the command that it names mends each."""

import json
import os
import shlex
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from certs import issue, issue_authority, service_names
from tests.cases_loader import Case, table
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
    *("conditions", "rights", "nodes", "culprits"),
]


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


def test_all_is_well_where_it_is_installed_and_nothing_was_touched(installed: ControlPlane) -> None:
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


def plant(plane: ControlPlane, case: Case) -> None:
    """Make what is wrong in a case."""
    if where := case.get("delete"):
        plane.client.delete(where)
    elif made := case.get("make"):
        {"late": slipped_in_behind, "old": worn_out, "foreign": other_bundle}[made](plane)
    else:
        where, pointer, value, *op = case["patch"]
        change = {"op": op[0] if op else "add", "path": pointer, "value": value}
        plane.client.patch(where, [change])


def other_bundle(plane: ControlPlane) -> None:
    """Of an authority of somebody else."""
    bundle = b64encode(issue_authority(at=NOW).cert_pem).decode()
    path = "/webhooks/0/clientConfig/caBundle"
    plane.client.patch(MUTATE, [{"op": "add", "path": path, "value": bundle}])


def slipped_in_behind(plane: ControlPlane) -> None:
    hook = plane.client.get(MUTATE).body["webhooks"][0]
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


@table("doctor/planted.yaml", "patch", "delete", "make", "found", "told", "fix")
def test_a_planted_fault_is_found_and_the_command_mends_it(
    installed: ControlPlane, tmp_path: Path, case: Case
) -> None:
    found = case["found"]
    plant(installed, case)
    wait_until(lambda: faults(examined(installed)) == found, what="the fault found, and no other")
    first = next(line for line in examined(installed).values() if line["id"] == next(iter(found)))
    assert case["told"] in first["message"], case.because
    assert first["fix"].startswith(case["fix"])
    mend(installed, first["fix"], tmp_path)
    wait_until(lambda: faults(examined(installed)) == {}, what="all well again")
    installed.client.delete(f"{MUTATING}/m-zzzzzzz-late", check=False)


def test_a_server_outside_is_examined_as_far_as_it_can_be_seen(
    installed: ControlPlane, tmp_path: Path
) -> None:
    assert genguard(installed, "uninstall", "--yes").exit_code == 0
    (absent,) = (line for line in examined(installed).values() if line["level"] != "ok")
    assert (absent["id"], absent["fix"]) == ("installed", "genguard install --audit-only")
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
