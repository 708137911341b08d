"""The krew archive of this platform, where there is nothing but a C library and kubectl."""

import hashlib
import json
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.controlplane.build import binary
from tests.supply.sandbox import C_LIBRARY, Sandbox
from tools.krew import PLATFORMS, PROGRAM, PROJECT, archive, here, manifest, name_of
from webhook import __version__

DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "shop", "generation": 4},
    "spec": {"replicas": 1, "selector": {}, "template": {}},
    "status": {"observedGeneration": 3},
}
HOOK = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "slow"},
    "webhooks": [{"name": "slow.example.org", "timeoutSeconds": 31}],
}


@pytest.fixture(scope="module")
def packed() -> Path:
    return archive()


@pytest.fixture(scope="module")
def sandbox(packed: Path, tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    """As krew puts it in place: unpacked in a store, with a link to the program on PATH."""
    folder = tmp_path_factory.mktemp("krew")
    root, files = folder / "root", folder / "files"
    (root / "bin").mkdir(parents=True)
    files.mkdir()
    with tarfile.open(packed) as tar:
        tar.extractall(root / "store", filter="data")
    (root / "bin" / PROGRAM).symlink_to(f"../store/{PROGRAM}")
    shutil.copy(binary("kubectl"), root / "bin")
    (files / "deployment.json").write_text(json.dumps(DEPLOYMENT))
    (files / "hook.json").write_text(json.dumps(HOOK))
    return Sandbox(root, files, system=C_LIBRARY)


def run(sandbox: Sandbox, *words: str) -> tuple[int, str]:
    command = sandbox.command("kubectl", "genguard", *words)
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, env=sandbox.env(), check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_the_root_has_no_python_and_no_shell(sandbox: Sandbox) -> None:
    for program in ("/bin/sh", "/usr/bin/env", "/usr/bin/python3"):
        command = sandbox.command("kubectl")
        command[-1] = program
        done = subprocess.run(
            command, capture_output=True, text=True, env=sandbox.env(), check=False
        )
        assert "No such file or directory" in done.stderr


def test_kubectl_finds_it_and_it_knows_its_version(sandbox: Sandbox) -> None:
    code, out = run(sandbox, "version")
    assert code == 0, out
    assert out.startswith(f"genguard {__version__}, ")


def test_it_examines_files(sandbox: Sandbox) -> None:
    code, out = run(sandbox, "status", "-f", "/tmp/certs/deployment.json", "-o", "json")
    assert code == 0, out
    assert json.loads(out.splitlines()[0])["ready"] is False


def test_it_lints_files(sandbox: Sandbox) -> None:
    code, out = run(sandbox, "lint", "-o", "sarif", "/tmp/certs/hook.json")
    assert code == 1, out
    rules = {result["ruleId"] for result in json.loads(out)["runs"][0]["results"]}
    assert "timeout-long" in rules


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("explain", "deployments"), "deployments"),
        (("install", "--audit-only", "-o", "yaml"), "zzzzzz-genguard-mutate"),
    ],
)
def test_it_has_the_tables_and_manifests(
    sandbox: Sandbox, words: tuple[str, ...], said: str
) -> None:
    code, out = run(sandbox, *words)
    assert code == 0, out
    assert said in out


def test_the_worker_for_expressions_starts(sandbox: Sandbox) -> None:
    """It is the program again."""
    code, out = run(sandbox, "rules", "check")
    assert code == 0, out
    assert " compile" in out


def test_the_archive_has_the_licence_and_no_key_and_no_test(packed: Path) -> None:
    with tarfile.open(packed) as tar:
        names = tar.getnames()
        assert {entry.uid for entry in tar.getmembers()} == {0}
    assert {PROGRAM, "LICENSE"} <= set(names)
    assert [name for name in names if name.endswith(".key") or name.startswith("tests/")] == []


def test_the_manifest_has_each_platform_with_its_hash(tmp_path: Path) -> None:
    for system, machine in PLATFORMS:
        (tmp_path / name_of(system, machine)).write_bytes(f"{system} {machine}".encode())
    plugin = manifest("https://example.org/genguard", tmp_path)
    assert plugin["apiVersion"] == "krew.googlecontainertools.github.com/v1alpha2"
    assert plugin["spec"]["version"] == f"v{PROJECT['version']}"
    assert len(plugin["spec"]["shortDescription"]) < 50
    assert here() in PLATFORMS
    for (system, machine), found in zip(PLATFORMS, plugin["spec"]["platforms"], strict=True):
        assert found["selector"]["matchLabels"] == {"os": system, "arch": machine}
        assert found["sha256"] == hashlib.sha256(f"{system} {machine}".encode()).hexdigest()
        assert found["uri"].endswith(f"/v{PROJECT['version']}/{name_of(system, machine)}")
        assert found["bin"] == PROGRAM


def test_a_missing_archive_is_no_manifest(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        manifest("https://example.org/genguard", tmp_path)
