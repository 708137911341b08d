"""What is in the wheel, and that building it again makes the same bytes."""

import os
import subprocess
import sys
import zipfile
from email.parser import HeaderParser
from pathlib import Path
from typing import NamedTuple

import pytest

from tools.wheel import LIBRARY, ROOT, build, copy_source

READ_ELSEWHERE = {"README.md", "genguard.json", "jsonnetfile.json"}
"""People read the first in the repository; Grafana and jsonnet are given the others from there."""
SERVER = (
    "genguard/generation/kinds.json",
    "webhook/dashboard/templates/findings.html",
    "manifests/base/server/access.yaml",
    "manifests/monitoring/runbooks/GenguardDown.md",
    "webhook/py.typed",
    "certs/py.typed",
    "manifests/py.typed",
    "genguard/py.typed",
)
CORE = (
    "genguard/generation/kinds.json",
    "genguard/detection/fix.yaml",
    "genguard/status/library/argo-cd.yaml",
    "genguard/py.typed",
    "genguard/testing/builtin_kinds.json",
)


class Built(NamedTuple):
    """A wheel, and what must be in it."""

    wheel: zipfile.ZipFile
    packages: tuple[str, ...]
    named: tuple[str, ...]
    left_out: str


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Built]:
    folder = tmp_path_factory.mktemp("wheel")
    source = copy_source(folder / "source")
    (source / "manifests" / "tls" / "tls.key").write_text("secret")
    server = zipfile.ZipFile(build(source, folder))
    library = zipfile.ZipFile(build(source / LIBRARY, folder))
    packages = ("webhook", "certs", "manifests", "genguard")
    return {
        "genguard-webhook": Built(server, packages, SERVER, "genguard/testing/"),
        "genguard": Built(library, ("genguard",), CORE, "nothing"),
    }


@pytest.fixture(params=["genguard-webhook", "genguard"])
def built(both: dict[str, Built], request: pytest.FixtureRequest) -> Built:
    return both[request.param]


def test_it_holds_every_module_table_manifest_runbook_and_page(built: Built) -> None:
    kinds = {".py", ".typed", ".json", ".yaml", ".lua", ".md", ".html", ".css", ".js", ".svg"}
    expected = {
        name
        for package in built.packages
        for path in (ROOT / package).rglob("*")
        if path.suffix in kinds and path.name not in READ_ELSEWHERE
        if not (name := str(path.relative_to(ROOT))).startswith(built.left_out)
    }
    assert set(built.named) <= expected <= set(built.wheel.namelist())


def test_it_holds_no_test_no_key_and_nothing_else(built: Built) -> None:
    names = built.wheel.namelist()
    folders = {name.partition("/")[0] for name in names}
    assert {one for one in folders if not one.endswith(".dist-info")} == set(built.packages)
    assert not [name for name in names if name.endswith((".key", ".crt", ".pyc"))]
    assert not [name for name in names if name.startswith(built.left_out)]


def test_it_carries_its_licence(built: Built) -> None:
    wheel = built.wheel
    (metadata,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    said = HeaderParser().parsestr(wheel.read(metadata).decode())
    assert said["License-Expression"] == "Apache-2.0"
    assert said.get_all("License-File") == ["LICENSE"]
    carried = wheel.read(metadata.replace("METADATA", "licenses/LICENSE"))
    assert carried == (ROOT / "LICENSE").read_bytes()
    assert b"Apache License" in carried


def test_built_twice_it_is_the_same_bytes(tmp_path: Path) -> None:
    """At another time and place, in another zone and language, with another umask and hashing."""
    wheels = []
    for number, (umask, changed) in enumerate(
        [
            (0o022, {"TZ": "UTC", "PYTHONHASHSEED": "1"}),
            (0o077, {"TZ": "Asia/Tokyo", "PYTHONHASHSEED": "2", "LANG": "C.UTF-8", "LC_ALL": "C"}),
        ]
    ):
        folder = tmp_path / str(number)
        done = subprocess.run(
            [sys.executable, "-m", "tools.wheel", str(folder)],
            cwd=ROOT,
            env={**os.environ, **changed},
            umask=umask,
            capture_output=True,
            text=True,
            check=True,
        )
        wheels.append([Path(line).read_bytes() for line in done.stdout.splitlines()])
    assert len(wheels[0]) == 2
    assert wheels[0] == wheels[1]


def test_the_times_in_it_are_that_of_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    with zipfile.ZipFile(build(copy_source(tmp_path / "source"), tmp_path)) as made:
        assert {entry.date_time for entry in made.infolist()} == {(2023, 11, 14, 22, 13, 20)}
