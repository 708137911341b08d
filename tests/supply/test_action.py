"""The GitHub Action and the pre-commit hook run `genguard lint` as GitHub and pre-commit do.

There is no Docker here: the entry of the Action's container runs in the sandbox, with the wheel
installed in place of the image.
"""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cases_loader import Case, table
from tests.supply.sandbox import Sandbox
from tools.wheel import ROOT

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
DOCKERFILE = (ROOT / ACTION["runs"]["image"]).read_text()
HOOK = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
GOOD_HOOK = {
    "name": "slow.example.org",
    "timeoutSeconds": 20,
    "failurePolicy": "Ignore",
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
    "clientConfig": {"url": "https://hooks.example.org/x", "caBundle": ""},
    "rules": [],
}


@pytest.fixture(scope="module")
def container(environment: Path) -> Path:
    """What the container has on PATH: genguard, and the entry under the name it has there."""
    (copied,) = re.findall(r"^COPY (\S+) /usr/local/bin/genguard-action$", DOCKERFILE, re.MULTILINE)
    shutil.copy(ROOT / copied, environment / "bin" / "genguard-action")
    return environment


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A checked out repository, as it is mounted."""
    for name, timeout in (("a b.yaml", 20), ("deep/worse.yml", 31), ("good.yaml", 2)):
        path = tmp_path / "hooks" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        webhook = {**GOOD_HOOK, "timeoutSeconds": timeout}
        metadata = {"name": path.stem.replace(" ", "-")}
        path.write_text(yaml.safe_dump({**HOOK, "metadata": metadata, "webhooks": [webhook]}))
    (tmp_path / "broken.yaml").write_text("kind: [\n")
    (tmp_path / "output").touch()
    return tmp_path


def act(container: Path, workspace: Path, files: str, fail_on: str = "error") -> Any:
    """What a step of a workflow does: the inputs as arguments, in the workspace."""
    sandbox = Sandbox(
        container, workspace, folder="/tmp/certs", variables={"GITHUB_OUTPUT": "output"}
    )
    given = {"${{ inputs.files }}": files, "${{ inputs.fail-on }}": fail_on}
    command = sandbox.command("genguard-action", *(given[one] for one in ACTION["runs"]["args"]))
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, env=sandbox.env(), check=False
    )


@table("supply/action_files.yaml", "files", "fail_on", "code", "seen")
def test_it_reports_each_file_and_fails_as_asked(
    container: Path, workspace: Path, case: Case
) -> None:
    done = act(container, workspace, case["files"], case["fail_on"])
    assert done.returncode == case["code"], done.stderr
    assert (workspace / "output").read_text() == "sarif=genguard-lint.sarif\n"
    (log,) = json.loads((workspace / "genguard-lint.sarif").read_text())["runs"]
    slow = [one for one in log["results"] if one["ruleId"] == "timeout-long"]
    places = [one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for one in slow]
    assert set(places) == set(case["seen"])
    assert ("timeout-long" in done.stdout) == bool(case["seen"])


@table("supply/action_unreadable.yaml", "files", "code", "said")
def test_what_cannot_be_read_is_an_error_and_no_report(
    container: Path, workspace: Path, case: Case
) -> None:
    done = act(container, workspace, case["files"])
    assert done.returncode == case["code"]
    assert not (workspace / "genguard-lint.sarif").exists()
    assert case["said"] in done.stdout + done.stderr
    assert (workspace / "output").read_text() == ""
    assert not (workspace / "seen").exists()


def test_the_action_has_what_github_needs() -> None:
    assert set(ACTION) >= {"name", "description", "inputs", "outputs", "runs", "branding"}
    assert ACTION["inputs"]["files"]["required"] is True
    entry = (ROOT / ".github/action/lint").stat()
    assert entry.st_mode & 0o111
    assert "USER" not in re.findall(r"^([A-Z]+) ", DOCKERFILE, re.MULTILINE)


def test_the_container_gets_only_hashed_packages_and_its_files_pass_the_dockerignore() -> None:
    image = re.compile(r"^ARG PYTHON_IMAGE=(.+)$", re.MULTILINE)
    assert image.findall(DOCKERFILE) == image.findall((ROOT / "Dockerfile").read_text())
    joined = DOCKERFILE.replace("\\\n", " ")
    for line in re.findall(r"^RUN .*$", joined, re.MULTILINE):
        for installed in re.findall(r"pip install .*?(?=&&|$)", line):
            assert "--require-hashes" in installed or "--no-index" in installed
    allowed = set(re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE))
    for line in re.findall(r"^COPY (.+)$", DOCKERFILE, re.MULTILINE):
        assert set(line.split()[:-1]) <= allowed


def test_the_hook_of_pre_commit_finds_what_lint_finds(container: Path, workspace: Path) -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    (hook,) = (one for one in hooks if one["entry"].startswith("genguard lint"))
    assert hook["language"] == "python"  # pre-commit installs the repository, and so its commands
    sandbox = Sandbox(container, workspace, folder="/tmp/certs")
    command = sandbox.command(*hook["entry"].split(), "hooks/good.yaml", "hooks/deep/worse.yml")
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, env=sandbox.env(), check=False
    )
    assert done.returncode == 1
    assert "timeout-long" in done.stdout
