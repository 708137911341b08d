"""`make release` in a clean clone: every file is made, tried and in the list of hashes.

Docker's place is taken by a program that says what Docker says, and helm's pushes go nowhere.
"""

import hashlib
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import NamedTuple

import pytest

from tools.krew import PLATFORMS, here, name_of
from tools.wheel import ROOT

VERSION = "9.8.7"
_SECONDS = 1800.0
_DOCKER = """#!/bin/sh
echo "$*" >> {log}
case "$*" in
  *"/etc/os-release"*) echo 'VERSION_ID="12"' ;;
  *"/var/lib/dpkg/status"*) ;;
  *python_version*) echo 3.11.14 ;;
  inspect*) echo '[{{"Id": "sha256:0"}}]' ;;
  run*) echo "genguard {says}, Kubernetes 1.28 to 1.37" ;;
esac
"""


class Made(NamedTuple):
    """A clone in which a release was made, what that printed, and what docker was asked for."""

    clone: Path
    said: str
    asked: str


def release(folder: Path, *, image_says: str = VERSION) -> subprocess.CompletedProcess[str]:
    """Makes a release in a clone of this repository, with archives of the other platforms."""
    clone, programs, archives = (folder / name for name in ("clone", "programs", "archives"))
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    for made in (programs, archives):
        made.mkdir()
    docker = programs / "docker"
    docker.write_text(_DOCKER.format(log=folder / "asked", says=image_says))
    docker.chmod(0o755)
    for platform in PLATFORMS:
        if platform != here():
            (archives / name_of(*platform)).write_text("made elsewhere")
    variables = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"}
    return subprocess.run(
        [
            *(sys.executable, "-m", "tools.release", VERSION),
            *("--repository=Acme/genguard", f"--archives={archives}"),
        ],
        cwd=clone,
        env=variables,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("release")
    done = release(folder)
    assert done.returncode == 0, done.stderr
    return Made(folder / "clone", done.stdout, (folder / "asked").read_text())


def test_each_file_is_there_and_was_tried(made: Made) -> None:
    wanted = {
        f"genguard_webhook-{VERSION}-py3-none-any.whl",
        f"genguard-{VERSION}-py3-none-any.whl",
        f"genguard-{VERSION}.tgz",
        *("genguard.cdx.json", "genguard-image.cdx.json", "genguard-manual.tar.gz"),
        *("genguard.yaml", "notes.md", "SHA256SUMS"),
        *(name_of(*platform) for platform in PLATFORMS),
    }
    assert {path.name for path in (made.clone / "dist").iterdir()} == wanted
    assert "left out" not in made.said
    for tried in (
        "py3-none-any.whl  built twice, installed into a fresh venv, run",
        f"{name_of(*here())}  ",
        "rendered by helm",
        f"ghcr.io/acme/genguard:{VERSION}",
    ):
        assert tried in made.said


def test_the_hashes_are_those_of_all_other_files(made: Made) -> None:
    folder = made.clone / "dist"
    lines = (line.split() for line in (folder / "SHA256SUMS").read_text().splitlines())
    hashes = {name: found for found, name in lines}
    others = {path for path in folder.iterdir() if path.name != "SHA256SUMS"}
    assert hashes == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in others}


def test_the_notes_are_what_was_unreleased(made: Made) -> None:
    unreleased = (ROOT / "CHANGELOG.md").read_text().partition("## [Unreleased]\n")[2]
    notes = (made.clone / "dist" / "notes.md").read_text()
    assert re.sub(r"https://github.com/Acme/genguard/blob/v[\d.]+/", "", notes).strip() == (
        unreleased.partition("\n## [")[0].strip()
    )


def test_the_chart_installs_the_image_of_the_release(made: Made) -> None:
    with tarfile.open(made.clone / "dist" / f"genguard-{VERSION}.tgz") as tar:
        values = tar.extractfile("genguard/values.yaml")
        assert values is not None
        assert "repository: ghcr.io/acme/genguard\n" in values.read().decode()


def test_the_image_is_built_with_its_labels_run_and_not_pushed(made: Made) -> None:
    build = next(line for line in made.asked.splitlines() if line.startswith("build "))
    assert f"--tag=ghcr.io/acme/genguard:{VERSION}" in build
    assert "--build-arg=SOURCE=https://github.com/Acme/genguard" in build
    assert "push" not in made.asked


def test_it_says_what_it_changed_and_what_to_do_next(made: Made) -> None:
    status = ["git", "status", "--porcelain"]
    listed = subprocess.run(status, cwd=made.clone, capture_output=True, text=True, check=True)
    changed = {line.split()[1] for line in listed.stdout.splitlines()}
    for path in changed:
        assert path in made.said or path.startswith("charts/"), path
    assert f"git tag v{VERSION}" in made.said


def test_a_file_that_is_not_of_this_version_ends_it(tmp_path: Path) -> None:
    done = release(tmp_path, image_says="0.0.1")
    assert done.returncode == 1
    assert f"'genguard 0.0.1, Kubernetes 1.28 to 1.37', not {VERSION}" in done.stderr
    assert done.stderr.endswith(f"The tree already says {VERSION}: `git diff` shows where.\n")
    assert "Traceback" not in done.stderr
