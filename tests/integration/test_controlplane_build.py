"""Where the control plane's binaries come from, and what is said when they cannot come."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.controlplane import build

ROOT = Path(__file__).parents[2]


@pytest.fixture
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return build.cache_folder()


def executable(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o755)
    return path


def test_versions_come_from_go_mod() -> None:
    assert build.pinned("k8s.io/kubernetes") == "1.36.3"
    assert "-X k8s.io/component-base/version.gitMinor=36 " in build.link_flags()
    with pytest.raises(build.BuildError, match=r"go\.mod does not require example\.com/none"):
        build.pinned("example.com/none")


def test_every_binary_is_a_tool_of_go_mod() -> None:
    tools = (build.MODULE / "go.mod").read_text().partition("tool (")[2].partition(")")[0].split()
    assert set(build.PACKAGES.values()) <= set(tools)


@pytest.mark.parametrize("minor", ["1.30", "1.37"])
def test_an_api_server_of_another_minor_is_of_one_release_throughout(minor: str) -> None:
    folder = build.PROGRAMS[f"{build.OTHER_MINOR}{minor}"]
    text = (folder / "go.mod").read_text()
    assert f"tool {build.PACKAGES['kube-apiserver']}\n" in text
    release = build.pinned("k8s.io/kubernetes", folder)
    assert release.startswith(f"{minor}.")
    replaced = {line.split()[-1] for line in text.splitlines() if " => " in line}
    assert replaced == {f"v0.{release.partition('.')[2]}"}
    assert f"gitVersion=v{release} " in build.link_flags(folder)


def test_a_cached_binary_is_not_built_again(empty_cache: Path) -> None:
    cached = executable(empty_cache / "etcd")
    assert build.binary("etcd") == cached


def test_a_program_of_ours_is_built_again_only_when_its_sources_change(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sources = shutil.copytree(build.PROGRAMS["statusviews"], tmp_path / "sources")
    monkeypatch.setitem(build.PROGRAMS, "statusviews", sources)
    cached = executable(build.program_folder("statusviews") / "statusviews")
    assert build.binary("statusviews") == cached
    (sources / "main.go").write_text("package main")
    assert build.program_folder("statusviews") != cached.parent


def test_the_judges_of_status_are_of_the_control_planes_version() -> None:
    def replaced(module: Path) -> list[str]:
        return [line for line in (module / "go.mod").read_text().splitlines() if "=>" in line]

    assert replaced(build.PROGRAMS["statusviews"]) == replaced(build.MODULE)


def test_kubebuilder_assets_come_first(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cached = executable(empty_cache / "kwok")
    executable(empty_cache / "etcd")
    given = executable(tmp_path / "assets" / "etcd")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(given.parent))
    assert build.binary("etcd") == given
    assert build.binary("kwok") == cached


def test_without_go_the_error_says_what_to_do(empty_cache: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.controlplane.build"],
        cwd=ROOT,
        env={"PATH": "/nowhere", "XDG_CACHE_HOME": str(empty_cache.parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert "etcd is not built yet and there is no go command on PATH" in done.stderr
    assert "Install Go 1.26" in done.stderr
    assert "KUBEBUILDER_ASSETS" in done.stderr


def test_a_failing_build_leaves_nothing_behind(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("go") is None:
        pytest.skip("needs Go")
    monkeypatch.setitem(build.PACKAGES, "nothing", "k8s.io/kubernetes/cmd/nothing")
    with pytest.raises(build.BuildError, match=r"go build of \S+/nothing failed in \S+:\n.+"):
        build.binary("nothing")
    assert [path.name for path in empty_cache.iterdir()] == [".lock"]


def test_of_what_the_compiler_says_only_a_line_a_binary_is_shown(
    empty_cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A compiler that says what go says when it fetches modules."""
    go = executable(tmp_path / "bin" / "go")
    go.write_text(
        """#!/bin/sh
for each in 1 2 3; do echo "go: downloading example.org/$each v1.0.0" >&2; done
while [ "$1" != -o ]; do shift; done
echo binary > "$2"
"""
    )
    monkeypatch.setenv("HOME", str(tmp_path / "bin"))
    monkeypatch.setenv("PATH", f"{go.parent}:/usr/bin:/bin")
    executable(empty_cache / "kwok")
    paths = build.binaries(["etcd", "kwok", "kubectl"])
    assert paths["etcd"].read_text() == "binary\n"
    lines = capfd.readouterr().err.splitlines()
    assert [line.partition(" in ")[0] for line in lines] == [
        "controlplane: 1/2 etcd: building",
        "controlplane: 1/2 etcd: built",
        "controlplane: 2/2 kubectl: building",
        "controlplane: 2/2 kubectl: built",
    ]
    assert lines[-1].endswith(f" s, 0 MB in {empty_cache}")
    assert build.missing(["etcd", "kwok", "kubectl", "kube-scheduler"]) == ["kube-scheduler"]
