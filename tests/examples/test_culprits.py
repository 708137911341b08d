"""Each culprit of examples/culprits runs, and genguard says of it what the page there says.

The manifests are rendered as `kubectl apply -k` renders them. What they would run in a pod runs
here as a process, by the same command; controllers have a token of the same ServiceAccount.
"""

import base64
import re
import shlex
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.client import wait_until
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import ProcessGroup
from tests.e2e.genguard import ROOT, Genguard
from tests.e2e.registrations import registered
from webhook.cli import main

CULPRITS = ROOT / "examples" / "culprits"
PAGE = (ROOT / "examples" / "README.md").read_text()
ROW = re.compile(r"^\| \[`([\w-]+)`\]\(culprits/[\w-]+\) \|[^|]*\| (.*) \|$", re.MULTILINE)
TOLD = {folder: re.findall(r"`([^`]+)`", said) for folder, said in ROW.findall(PAGE)}
"""By the folder of a culprit: the detector, and then each actor."""
PROGRAMS = {"culprit": "webhook/webhook.py", "insist": "insist/insist.py"}
SECONDS = 120.0


def test_the_page_has_every_culprit() -> None:
    assert TOLD.keys() == {path.parent.name for path in CULPRITS.glob("*/kustomization.yaml")} - {
        "playground",
        "webhook",
        "insist",
    }


def test_what_the_page_tells_to_type_is_understood() -> None:
    typed = [
        line
        for block in re.findall(r"^```\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
        for line in block.splitlines()
    ]
    for line in typed:
        assert all((ROOT / path).exists() for path in re.findall(r"examples/[\w/-]+", line)), line
        program, *words = shlex.split(line)
        if program == "genguard":
            command = main.get_command(main.make_context("genguard", words[:1]), words[0])
            assert command is not None
            command.make_context(words[0], words[1:])
    assert sum(line.startswith("genguard") for line in typed) >= 3


@pytest.mark.parametrize("folder", TOLD)
def test_genguard_names_the_culprit(cluster: ControlPlane, tmp_path: Path, folder: str) -> None:
    copy = tmp_path / "culprits"
    shutil.copytree(CULPRITS, copy, ignore=shutil.ignore_patterns("*.key", "*.crt"))
    cluster.authority.issue_server().write(copy / "webhook" / "tls", "tls")
    authority = cluster.authority.pair.certificate
    (copy / "webhook" / "tls" / "ca.crt").write_bytes(authority)
    rendered = list(yaml.safe_load_all(cluster.kubectl("kustomize", str(copy / folder)).stdout))
    detector, *actors = TOLD[folder]
    with ExitStack() as stack:
        run = stack.enter_context(_applied(cluster, tmp_path, rendered))
        guard = stack.enter_context(Genguard("--audit-only", f"--kubeconfig={cluster.kubeconfig}"))
        stack.enter_context(registered(cluster, "playground", guard))
        end = time.monotonic() + SECONDS
        while (found := _actors(guard, detector)) != set(actors):
            run.check()
            assert time.monotonic() < end, (found, guard.ops("/api/findings"))
            cluster.kubectl("-n", "playground", "rollout", "restart", "deployment/web")
            time.sleep(2)


def _actors(guard: Genguard, detector: str) -> set[str]:
    """Who is named by the finding of this detector that is more than an accident."""
    found = guard.findings()
    return {
        actor["name"]
        for finding in found
        if finding["detector"] == detector and finding["severity"] != "info"
        for actor in finding["actors"]
        if actor["confidence"] != "possible"
    }


@contextmanager
def _applied(
    plane: ControlPlane, folder: Path, rendered: list[dict[str, Any]]
) -> Iterator[ProcessGroup]:
    """The objects in the cluster, and their programs as processes."""
    processes = ProcessGroup(folder)
    pods = [one for one in rendered if _runs_a_program(one)]
    others = [one for one in rendered if one not in pods]
    hooks = [one for one in others if "webhooks" in one]
    _apply(plane, [one for one in others if one not in hooks])
    try:
        for one in pods:
            _start(plane, processes, folder, one)
        if hooks:
            port = wait_until(lambda: _port(folder), what="the webhook's port")
            for hook in (hook for one in hooks for hook in one["webhooks"]):
                path = hook["clientConfig"].pop("service")["path"]
                hook["clientConfig"]["url"] = f"https://127.0.0.1:{port}{path}"
            _apply(plane, hooks)
        yield processes
    finally:
        processes.stop()
        for one in (*hooks, *(one for one in others if one["kind"] == "Namespace")):
            words = ("delete", one["kind"], one["metadata"]["name"], "--ignore-not-found")
            plane.kubectl(*words)


def _runs_a_program(one: dict[str, Any]) -> bool:
    return one["kind"] == "Deployment" and one["metadata"]["namespace"] == "culprits"


def _start(
    plane: ControlPlane, processes: ProcessGroup, folder: Path, deployment: dict[str, Any]
) -> None:
    spec = deployment["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    program = folder / "culprits" / PROGRAMS[container["name"]]
    _, mounted, *words = container["command"]
    assert Path(mounted).name == program.name
    environment = {}
    if account := spec.get("serviceAccountName"):
        path = f"/api/v1/namespaces/culprits/serviceaccounts/{account}/token"
        answer = plane.client.post(path, {"spec": {"expirationSeconds": 3600}})
        token, ca = folder / f"{account}.token", folder / "ca.crt"
        token.write_text(answer.body["status"]["token"])
        ca.write_bytes(plane.authority.pair.certificate)
        environment = {"KUBE_SERVER": plane.server, "KUBE_TOKEN": str(token), "KUBE_CA": str(ca)}
    else:
        words = ["--port=0", f"--tls={folder / 'culprits' / 'webhook' / 'tls'}"]
    name = deployment["metadata"]["name"]
    processes.start(name, [sys.executable, str(program), *words], environment)


def _port(folder: Path) -> int | None:
    said = re.search(r"^serving on port (\d+)$", (folder / "culprit.log").read_text(), re.MULTILINE)
    return int(said[1]) if said else None


def _apply(plane: ControlPlane, objects: list[dict[str, Any]]) -> None:
    plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))


def test_a_registration_trusts_the_authority_of_the_folder(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    copy = tmp_path / "culprits"
    shutil.copytree(CULPRITS, copy, ignore=shutil.ignore_patterns("*.key", "*.crt"))
    for name in ("tls.crt", "tls.key", "ca.crt"):
        (copy / "webhook" / "tls" / name).write_text(name)
    folder = copy / "observed-generation-zeroed"
    documents = yaml.safe_load_all(cluster.kubectl("kustomize", str(folder)).stdout)
    (hook,) = next(one for one in documents if "webhooks" in one)["webhooks"]
    assert base64.b64decode(hook["clientConfig"]["caBundle"]) == b"ca.crt"
