"""The workflows, read line by line: pinned, with few rights, and nothing put in by names."""

import re
import subprocess
from typing import Any

import pytest
import yaml

from tools.binaries import binary
from tools.krew import PLATFORMS
from tools.published import current
from tools.release import labels
from tools.wheel import ROOT

FOLDER = ROOT / ".github" / "workflows"
TEXT = (FOLDER / "release.yml").read_text()
NIGHTLY = (FOLDER / "nightly.yml").read_text()


def read(text: str) -> dict[str, Any]:
    """Every value as its text: to YAML 1.1 `on` is true."""
    found: dict[str, Any] = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506
    return found


WORKFLOW = read(TEXT)
JOBS: dict[str, dict[str, Any]] = WORKFLOW["jobs"]
NIGHT: dict[str, dict[str, Any]] = read(NIGHTLY)["jobs"]
STEPS = [step for job in (*JOBS.values(), *NIGHT.values()) for step in job["steps"]]
MADE = {"audit", "krew", "release", "test-all"}
SIGNING = {"id-token": "write", "attestations": "write"}


def test_every_action_is_pinned_to_a_commit_whose_version_stands_beside_it() -> None:
    used = re.findall(r"uses: (.+)", TEXT + NIGHTLY)
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
        ("krew", {"contents": "read"}),
        ("build", {"contents": "read", "packages": "write"}),
        ("publish", {"contents": "write", "packages": "write", **SIGNING}),
    ],
)
def test_each_job_may_do_what_it_does(job: str, rights: dict[str, str]) -> None:
    assert WORKFLOW["permissions"] == {}
    assert JOBS[job]["permissions"] == rights
    assert set(JOBS) == {"test", "krew", "build", "publish"}


def test_what_may_sign_runs_nothing_of_the_repository() -> None:
    steps = JOBS["publish"]["steps"]
    assert not [step for step in steps if step.get("uses", "").startswith("actions/checkout@")]
    assert not [step for step in steps if re.search(r"make |python", step.get("run", ""))]


def test_both_wheels_and_no_other_file_go_to_pypi() -> None:
    *_, take, upload = JOBS["publish"]["steps"]
    assert take["run"].endswith("cp dist/*.whl wheels")
    assert upload["uses"].startswith("pypa/gh-action-pypi-publish@")
    assert upload["with"] == {"packages-dir": "wheels"}


def test_what_is_published_was_tested_before() -> None:
    told = [step.get("run") for step in JOBS["test"]["steps"]]
    assert told[-3:] == ["make audit", ".ci/run", "make test-all"]
    for name in set(JOBS) - {"test"}:
        before = JOBS[name]["needs"]
        while before != "test":
            before = JOBS[before]["needs"]


def test_each_night_every_test_is_run_with_no_right_but_to_read() -> None:
    assert "schedule" in read(NIGHTLY)["on"]
    (job,) = NIGHT.values()
    assert job["permissions"] == {"contents": "read"}
    assert job["steps"][-1]["run"] == "make test-all"


def test_the_plugin_is_built_for_each_platform_of_its_manifest() -> None:
    runners = JOBS["krew"]["strategy"]["matrix"]["runner"]
    assert len(runners) == len(PLATFORMS)
    assert {one.partition("-")[0] for one in runners} == {"ubuntu", "macos"}


def test_actionlint_finds_nothing_to_complain_about() -> None:
    command = [binary("actionlint"), "-no-color", "-shellcheck=", "-pyflakes="]
    files = sorted(FOLDER.glob("*.yml"))
    done = subprocess.run([*command, *files], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_no_expression_is_pasted_into_a_script() -> None:
    """A tag's name would be run with it; a variable is only read."""
    assert [step["run"] for step in STEPS if "${{" in step.get("run", "")] == []


def test_no_checkout_leaves_a_token_behind() -> None:
    checkouts = [step for step in STEPS if step.get("uses", "").startswith("actions/checkout@")]
    assert len(checkouts) == len(JOBS) - 1 + len(NIGHT)  # publish has none
    assert all(step["with"]["persist-credentials"] == "false" for step in checkouts)


def test_no_secret_is_needed() -> None:
    assert "secrets." not in TEXT + NIGHTLY


def test_the_verbs_are_those_of_the_makefile() -> None:
    verbs = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    called = [word for step in STEPS for word in re.findall(r"make (.+)", step.get("run", ""))]
    assert {words.split()[0] for words in called} == MADE
    assert verbs >= MADE


def test_the_image_gets_the_labels_that_the_dockerfile_takes() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    for name in labels(current()):
        assert f"ARG {name}=\n" in dockerfile
