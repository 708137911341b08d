"""The Go test that is handed over, on a real API server: red as recorded, green without."""

import os
import subprocess
from pathlib import Path

import pytest

from genguard.reproduce.handing_over import folder_of
from tests.controlplane.build import binaries
from tests.reproduce.making import made_of

pytestmark = pytest.mark.timeout(1_800)  # of which the first build takes most


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Go test, built once; it reads loop.json where it is run."""
    folder = tmp_path_factory.mktemp("reproduce")
    made, _ = made_of("replicas-pinned")
    for name, content in folder_of(made).items():
        (folder / name).write_bytes(content)
    built = folder / "reproduce.test"
    subprocess.run(
        ["go", "test", "-c", "-o", str(built), "."], cwd=folder, check=True, timeout=1500
    )
    return built


@pytest.mark.parametrize(
    ("name", "harm"),
    [
        ("deployment-status-zeroed", "not stored as asked for"),
        ("replicas-pinned", "not stored as asked for"),
        ("annotation-added-to-at-each-call", "changed though nobody asked"),
        ("label-of-two-wills", "changed by somebody else"),
    ],
)
def test_the_loop_is_red_on_a_real_api_server_and_green_without_who_makes_it(
    program: Path, tmp_path: Path, name: str, harm: str
) -> None:
    made, _ = made_of(name)
    (tmp_path / "loop.json").write_bytes(folder_of(made)["loop.json"])
    red = played(program, tmp_path)
    assert red.returncode == 1
    assert harm in red.stdout
    green = played(program, tmp_path, WITHOUT_CULPRIT="1")
    assert green.returncode == 0, green.stdout


def played(program: Path, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    assets = binaries(["etcd", "kube-apiserver"])["etcd"].parent
    environment = {**os.environ, **more, "KUBEBUILDER_ASSETS": str(assets)}
    return subprocess.run(
        [program],
        check=False,
        cwd=folder,
        env=environment,
        text=True,
        capture_output=True,
        timeout=300,
    )
