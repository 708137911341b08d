"""The Action of `genguard converge`, as GitHub runs it: in a checked out repository."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.architecture.source import ROOT
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.controlplane.webhook_listener import Patch, WebhookListener
from tests.e2e.test_converge import SETTINGS, appends
from tests.scenarios.culprits import labels

FOLDER = ROOT / ".github" / "action" / "converge"
ACTION: dict[str, Any] = yaml.safe_load((FOLDER / "action.yml").read_text())
_SECONDS = 60.0
"""What the step may take where genguard is installed."""


def act(plane: ControlPlane, workspace: Path, namespace: str) -> subprocess.CompletedProcess[str]:
    """Run the step with these inputs; genguard of this Python is installed."""
    (step,) = [one for one in ACTION["runs"]["steps"] if one.get("id") == "converge"]
    given = {"files": "manifests\n", "namespace": namespace, "argocd-app": ""}
    inputs = {
        name: given[value.removeprefix("${{ inputs.").removesuffix(" }}")]
        for name, value in step["env"].items()
        if "inputs." in value
    }
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    known = {
        "PATH": path,
        "PYTHONPATH": str(ROOT),
        "KUBECONFIG": str(plane.kubeconfig),
        "GITHUB_OUTPUT": str(workspace / "output"),
        "GITHUB_ACTION_PATH": str(FOLDER),
    }
    return subprocess.run(
        ["bash", "-c", step["run"]],
        cwd=workspace,
        env={**known, **inputs},
        capture_output=True,
        text=True,
        timeout=2 * _SECONDS,
        check=False,
    )


@pytest.mark.parametrize(
    ("patch", "code"), [(labels, 0), (appends, 1)], ids=["idempotent", "appends"]
)
def test_a_repository_passes_with_an_idempotent_webhook_and_fails_with_an_appending_one(
    apiserver: ControlPlane, namespace: NamespaceFactory, tmp_path: Path, patch: Patch, code: int
) -> None:
    where = namespace(apiserver)
    manifest = tmp_path / "manifests" / "shop" / "settings.yaml"
    manifest.parent.mkdir(parents=True)
    manifest.write_text(yaml.safe_dump(SETTINGS))
    wanted = manifest.read_text().splitlines().index("    journal: '-'") + 1
    with (
        WebhookListener(apiserver.authority, patch) as listener,  # type: ignore[arg-type]
        listener.registered(apiserver, where, ["configmaps"], name="teams-own"),
    ):
        begin = time.monotonic()
        done = act(apiserver, tmp_path, where)
        taken = time.monotonic() - begin
    assert done.returncode == code, done
    print(f"the step took {taken:.1f} s")
    assert taken < _SECONDS
    assert (tmp_path / "output").read_text() == "sarif=genguard-converge.sarif\n"
    results = json.loads((tmp_path / "genguard-converge.sarif").read_text())["runs"][0]["results"]
    places = [one["locations"][0]["physicalLocation"] for one in results if one["level"] == "error"]
    assert bool(places) == bool(code)
    for one in places:
        assert one["artifactLocation"]["uri"] == "manifests/shop/settings.yaml"
        assert one["region"]["startLine"] == wanted
