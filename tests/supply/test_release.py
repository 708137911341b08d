"""The release workflow, read line by line: pinned, with few rights, and nothing put in by names."""

import re
import subprocess
from typing import Any

import pytest
import yaml

from tests.supply.binaries import binary
from tests.supply.krew import PLATFORMS
from tests.supply.wheel import ROOT

TEXT = (ROOT / ".github/workflows/release.yml").read_text()
# Every value as its text: to YAML 1.1 `on` is true.
WORKFLOW: dict[str, Any] = yaml.load(TEXT, Loader=yaml.BaseLoader)  # noqa: S506
JOBS: dict[str, dict[str, Any]] = WORKFLOW["jobs"]
STEPS = [step for job in JOBS.values() for step in job["steps"]]
MADE = {"audit", "wheel", "sbom", "krew", "install"}
SIGNING = {"id-token": "write", "attestations": "write"}


def test_every_action_is_pinned_to_a_commit_whose_version_stands_beside_it() -> None:
    used = re.findall(r"uses: (.+)", TEXT)
    assert len(used) == len([step for step in STEPS if "uses" in step]) > 0
    for one in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one), one
    assert len({one.partition(" ")[0] for one in used}) == len(
        {one.partition("@")[0] for one in used}
    )


def test_only_a_tag_starts_it() -> None:
    assert WORKFLOW["on"] == {"push": {"tags": ["v*"]}}


@pytest.mark.parametrize(
    ("job", "rights"),
    [
        ("test", {"contents": "read"}),
        ("wheel", {"contents": "write", **SIGNING}),
        ("image", {"contents": "read", "packages": "write", **SIGNING}),
        ("chart", {"contents": "read", "packages": "write", **SIGNING}),
        ("krew", {"contents": "write", **SIGNING}),
        ("plugin", {"contents": "write"}),
    ],
)
def test_each_job_may_do_what_it_does(job: str, rights: dict[str, str]) -> None:
    assert WORKFLOW["permissions"] == {}
    assert JOBS[job]["permissions"] == rights
    assert set(JOBS) == {"test", "wheel", "image", "chart", "krew", "plugin"}


def test_what_is_published_was_tested_before() -> None:
    assert [step.get("run") for step in JOBS["test"]["steps"]][-2:] == ["make audit", ".ci/run"]
    for name in set(JOBS) - {"test"}:
        before = JOBS[name]["needs"]
        while before != "test":
            before = JOBS[before]["needs"]


def test_the_plugin_is_built_for_each_platform_of_its_manifest() -> None:
    runners = JOBS["krew"]["strategy"]["matrix"]["runner"]
    assert len(runners) == len(PLATFORMS)
    assert {one.partition("-")[0] for one in runners} == {"ubuntu", "macos"}


def test_actionlint_finds_nothing_to_complain_about() -> None:
    command = [binary("actionlint"), "-no-color", "-shellcheck=", "-pyflakes="]
    done = subprocess.run(
        [*command, ROOT / ".github/workflows/release.yml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_no_expression_is_pasted_into_a_script() -> None:
    """A tag's name would be run with it; a variable is only read."""
    assert [step["run"] for step in STEPS if "${{" in step.get("run", "")] == []


def test_no_checkout_leaves_a_token_behind() -> None:
    checkouts = [step for step in STEPS if step.get("uses", "").startswith("actions/checkout@")]
    assert len(checkouts) == len(JOBS)
    assert all(step["with"]["persist-credentials"] == "false" for step in checkouts)


def test_no_secret_is_needed() -> None:
    assert "secrets." not in TEXT


def test_the_verbs_are_those_of_the_makefile() -> None:
    verbs = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    called = [word for step in STEPS for word in re.findall(r"make (.+)", step.get("run", ""))]
    assert {verb for words in called for verb in words.split()} == MADE
    assert verbs >= MADE


def test_the_image_gets_the_labels_that_the_dockerfile_takes() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    for name in re.findall(r"--build-arg (\w+)=", TEXT):
        assert f"ARG {name}=\n" in dockerfile
