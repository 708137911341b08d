"""The control plane that other tests trust: its build, its versions, its end, and its kubelet."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane import build
from tests.controlplane.build import pinned, provided
from tests.controlplane.client import STRATEGIC_MERGE_PATCH, Client, wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.options import Options
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import ServerFailedError
from tests.waiting import PATIENCE

POD = {"metadata": {"name": "one"}, "spec": {"containers": [{"name": "c", "image": "image"}]}}


def test_the_version_is_stamped(apiserver: ControlPlane) -> None:
    if provided("kube-apiserver"):
        pytest.skip("KUBEBUILDER_ASSETS brings a kube-apiserver of its own version")
    version = apiserver.client.get("/version").body
    assert version["gitVersion"] == f"v{pinned('k8s.io/kubernetes')}" == "v1.36.3"
    assert (version["major"], version["minor"]) == ("1", "36")


def test_an_older_release_is_emulated() -> None:
    with ControlPlane(Options(emulated_version="1.34")) as plane:
        version = plane.client.get("/version").body
        assert (version["minor"], version["emulationMinor"]) == ("36", "34")
        assert not any(each.version == "v1alpha2" for each in plane.client.discover())

        pods = "/api/v1/namespaces/default/pods"
        made = plane.client.post(pods, POD).body
        assert made["metadata"]["generation"] == 1
        status = {"status": {"observedGeneration": 1}}
        seen = plane.client.patch(f"{pods}/one/status", status).body
        assert seen["status"]["observedGeneration"] == 1


def test_waiting_says_what_it_last_saw() -> None:
    with pytest.raises(TimeoutError, match=r"the answer not true within 0 s; last: \[\]"):
        wait_until(list, timeout=0, what="the answer")


def test_a_start_that_fails_shows_the_end_of_the_log() -> None:
    plane = ControlPlane(Options(feature_gates={"NoSuchGate": True}))
    with pytest.raises(ServerFailedError, match="unrecognized feature gate: NoSuchGate"), plane:
        pass
    assert not plane.folder.exists()


def test_nothing_outlives_a_test_process_that_is_killed() -> None:
    program = (
        "import time\n"
        "from tests.controlplane.plane import ControlPlane\n"
        "plane = ControlPlane()\n"
        "plane.start()\n"
        "print(plane.folder, *plane.pids().values(), flush=True)\n"
        "time.sleep(600)\n"
    )
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=root, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        folder, *pids = process.stdout.readline().split()
        assert all(_runs(int(pid)) for pid in pids)
        process.send_signal(signal.SIGKILL)
    assert len(pids) == 2
    wait_until(lambda: not any(_runs(int(pid)) for pid in pids))
    wait_until(lambda: not Path(folder).exists())


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # Where no init reaps it, a killed orphan stays as a zombie.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


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


OWNED = {"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"}


def pod(name: str = "one", **annotations: str) -> dict[str, Any]:
    marked = {f"genguard.io/test-{key.replace('_', '-')}": v for key, v in annotations.items()}
    containers = [{"name": "c", "image": "image:1", "resources": {"requests": {"cpu": "100m"}}}]
    return {
        "metadata": {"name": name, "labels": {"app": "a"}, "annotations": marked},
        "spec": {"containers": containers, "restartPolicy": "Never"},
    }


def conditions(found: Mapping[str, Any]) -> dict[str, Any]:
    return {each["type"]: each for each in found["status"].get("conditions", ())}


def is_observed(found: Mapping[str, Any]) -> bool:
    generation = found["metadata"]["generation"]
    every = [found["status"], *(conditions(found)[name] for name in OWNED & {*conditions(found)})]
    return all(each.get("observedGeneration") == generation for each in every)


def is_ready(found: Mapping[str, Any]) -> bool:
    return bool(conditions(found).get("Ready", {}).get("status") == "True")


def run(client: Client, path: str, body: dict[str, Any]) -> dict[str, Any]:
    client.post(path, body)
    at = f"{path}/{body['metadata']['name']}"

    def found() -> dict[str, Any] | None:
        seen: dict[str, Any] = client.get(at).body
        return seen if is_ready(seen) else None

    return wait_until(found, what=f"{at} ready")


def is_gone(client: Client, path: str) -> bool:
    return client.get(path, check=False).status == 404


@pytest.mark.parametrize(
    ("subresource", "change"),
    [
        ("/resize", {"containers": [{"name": "c", "resources": {"requests": {"cpu": "200m"}}}]}),
        ("", {"containers": [{"name": "c", "image": "image:2"}]}),
        ("", {"activeDeadlineSeconds": 1000}),
        ("/ephemeralcontainers", {"ephemeralContainers": [{"name": "debug", "image": "i"}]}),
    ],
    ids=["resize", "image", "deadline", "debugging"],
)
def test_a_moved_generation_is_observed(
    cluster: ControlPlane, namespace: NamespaceFactory, subresource: str, change: dict[str, Any]
) -> None:
    pods = f"/api/v1/namespaces/{namespace(cluster)}/pods"
    run(cluster.client, pods, pod())
    body = {"spec": change}
    cluster.client.patch(f"{pods}/one{subresource}", body, content_type=STRATEGIC_MERGE_PATCH)

    def seen() -> dict[str, Any] | None:
        found: dict[str, Any] = cluster.client.get(f"{pods}/one").body
        settled = is_observed(found) and conditions(found).keys() == OWNED
        return found if settled and found["metadata"]["generation"] == 2 else None

    found = wait_until(seen)
    (container,), (status,) = found["spec"]["containers"], found["status"]["containerStatuses"]
    assert status["resources"] == container["resources"]
    assert status["image"] == container["image"]
    assert status["restartCount"] == (1 if container["image"] == "image:2" else 0)


def test_deletion_is_observed_and_then_honoured(
    cluster: ControlPlane, namespace: NamespaceFactory
) -> None:
    pods = f"/api/v1/namespaces/{namespace(cluster)}/pods"
    made = run(cluster.client, pods, pod(terminates_after="700ms"))
    cluster.client.delete(f"{pods}/one")
    version = {"resourceVersion": made["metadata"]["resourceVersion"]}
    events = []
    for each in cluster.client.watch(pods, params=version, timeout=PATIENCE):
        events.append(each)
        if each.type == "DELETED":
            break
    seen = [
        (
            each.type,
            each.object["metadata"]["generation"],
            each.object["status"]["observedGeneration"],
            each.object["status"]["phase"],
        )
        for each in events
    ]
    assert seen == [
        ("MODIFIED", 2, 1, "Running"),
        ("MODIFIED", 2, 2, "Running"),
        ("MODIFIED", 2, 2, "Succeeded"),
        ("MODIFIED", 2, 2, "Succeeded"),  # grace 0
        ("DELETED", 2, 2, "Succeeded"),
    ]
