"""The script for kind does what its README says: docker and kind are played, the API is real."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.e2e.genguard import ROOT
from tests.e2e.kubelet import PLANE, SYSTEM, Kubelet
from tests.e2e.pretended import Pretended
from tests.e2e.verbs import run

DEPLOYMENT = f"/apis/apps/v1/namespaces/{SYSTEM}/deployments/genguard"
IMAGE = "genguard:kind-0123456789ab"
README = (ROOT / "manifests" / "kind" / "README.md").read_text()


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(PLANE) as plane, Kubelet(plane):
        yield plane


@pytest.fixture
def tools(plane: ControlPlane, tmp_path: Path) -> Pretended:
    return Pretended(plane, tmp_path)


def test_up_makes_a_cluster_and_installs_into_it_and_down_takes_it_away(
    plane: ControlPlane, tools: Pretended
) -> None:
    up = tools.run("up", "--audit-only")
    assert up.returncode == 0, up.stderr
    assert [line for line in up.stderr.splitlines() if line.startswith("== ")] == [
        "== 1/4 create a cluster of three nodes",
        "== 2/4 build and load the image, a minute or more",
        "== 3/4 genguard install",
        "== 4/4 genguard doctor",
        "== try it: manifests/kind/README.md",
    ]
    assert "reached" in up.stdout
    assert "a line of the build" not in up.stdout + up.stderr
    calls = tools.calls()
    asked = [" ".join(call[:3]) for call in calls]
    first = ["docker info", "kind get clusters", "kind create cluster", "docker build --iidfile"]
    then = ["docker tag sha256:0123456789abcdef", "kind load docker-image", "kind get kubeconfig"]
    assert asked == [*first, *then, "docker run --rm", "docker run --rm"]
    assert calls[2][4] == str(ROOT / "manifests" / "kind" / "cluster.yaml")
    assert calls[3][-1] == str(ROOT)
    (container,) = plane.client.get(DEPLOYMENT).body["spec"]["template"]["spec"]["containers"]
    assert container["image"] == IMAGE
    assert "--audit-only" in container["args"]

    again = tools.run("up", "--audit-only")
    assert again.returncode == 0, again.stderr
    assert "== 1/4 the cluster genguard exists" in again.stderr
    assert ["kind", "create"] not in [call[:2] for call in tools.calls()]

    down = tools.run("down")
    assert down.returncode == 0, down.stderr
    asked = [" ".join(call[:4]) for call in tools.calls()]
    assert asked[2:] == [
        "kind delete cluster --name",
        "docker image ls --quiet",
        "docker image rm --force",
    ]
    assert tools.run("down").returncode == 0, "what is gone may be taken away again"
    run(plane, "uninstall", "--yes")


def test_where_a_step_fails_the_next_is_not_tried(tools: Pretended) -> None:
    tools.fail("docker build")
    failed = tools.run("up")
    assert failed.returncode != 0
    assert failed.stderr.endswith("told why\nkind.sh: docker build failed: its output is above\n")
    assert tools.calls()[-1][:2] == ["docker", "build"]


@pytest.mark.parametrize(("level", "code"), [("warn", 0), ("fail", 1)])
def test_what_doctor_says_stands_at_the_end_and_only_a_failure_is_one(
    tools: Pretended, level: str, code: int
) -> None:
    tools.play("install", 0)
    tools.play("doctor", 1, f"ok   pods  well\n{level} order  bad  — do this\n1 ok, 1 {level}")
    up = tools.run("up")
    assert up.returncode == code
    _, _, end = up.stderr.partition("== 4/4 genguard doctor\n")
    told = [
        "== genguard is installed, but doctor is not content:",
        f"{level} order  bad  — do this",
    ]
    assert end.splitlines()[:2] == told
    assert ("== try it" in end) is (code == 0)


def test_where_doctor_cannot_be_run_up_fails(tools: Pretended) -> None:
    tools.play("install", 0)
    tools.play("doctor", 125)
    assert tools.run("up").returncode == 1


def test_the_readme_shows_the_script_s_own_verbs() -> None:
    assert set(re.findall(r"^manifests/kind/kind\.sh (\w+)", README, re.MULTILINE)) == {
        "up",
        "down",
    }
