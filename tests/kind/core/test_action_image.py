"""The container of the GitHub Action, built and run in Docker as GitHub does it."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kind.core.test_image import docker

IMAGE = "genguard-action:image-test"
WORKSPACE = "/github/workspace"


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    docker("build", "-f", "Dockerfile.action", "-t", IMAGE, ".")
    yield IMAGE
    docker("rmi", IMAGE)


def configuration(**webhook: Any) -> dict[str, Any]:
    client = {"service": {"namespace": "shop", "name": "hooks"}}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "hooks"},
        "webhooks": [{"name": "h.example.org", "clientConfig": client, **webhook}],
    }


def act(image: str, workspace: Path, files: str) -> subprocess.CompletedProcess[str]:
    """Run the Action as GitHub does, with `files` as its input."""
    (workspace / "output").touch()
    options = ("-v", f"{workspace}:{WORKSPACE}", "-w", WORKSPACE)
    environment = ("-e", f"GITHUB_OUTPUT={WORKSPACE}/output")
    return docker("run", "--rm", *options, *environment, image, files, "error", check=False)


def test_it_finds_what_lint_finds_and_leaves_sarif(image: str, tmp_path: Path) -> None:
    rules = [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]
    found = configuration(failurePolicy="Fail", rules=rules)
    (tmp_path / "hooks.json").write_text(json.dumps(found))
    done = act(image, tmp_path, "*.json")
    assert done.returncode == 1, done.stderr
    assert "hooks/h.example.org" in done.stdout
    report = json.loads((tmp_path / "genguard-lint.sarif").read_text())
    assert report["version"] == "2.1.0"
    assert report["runs"][0]["results"]
    assert (tmp_path / "output").read_text() == "sarif=genguard-lint.sarif\n"


def test_files_that_are_not_there_are_told(image: str, tmp_path: Path) -> None:
    done = act(image, tmp_path, "*.json")
    assert done.returncode == 2
    assert "no file matches the input files: *.json" in done.stdout
