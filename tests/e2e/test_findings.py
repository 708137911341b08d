"""`genguard findings`, and who is to blame, read through a real API server by a forwarded port.

kwok plays the kubelet of the pod: it serves port-forwarding with the code of a real node, and leads
the pod's ops port to the process that serves.
"""

import itertools
import json
import re
import shlex
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from tests.controlplane.client import wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.granting import SYSTEM, granted
from tests.controlplane.options import Options
from tests.controlplane.plane import ControlPlane
from tests.controlplane.webhook_listener import WebhookListener
from tests.e2e.culprits import OLD_OPERATOR, deployment, zeroes_observed_generation
from tests.e2e.genguard import ROOT, Genguard
from tests.e2e.registrations import registered
from tests.e2e.verbs import Verb, run
from tests.readme.commands import blocks, commands
from tests.reviews import clobbered
from tests.unit.cli.samples import recorded
from tools.schemas import OUTPUTS, schema_of
from webhook.cli import main

_POD = {"name": "genguard-0", "labels": {"app.kubernetes.io/name": "genguard"}}
_OPS = {"name": "ops", "containerPort": 8080}
_CULPRIT = f"{OLD_OPERATOR}/reviews.example.org"
_DETECTOR = "observed-generation-cleared"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def ops_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def plane(ops_port: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A cluster in which pod genguard-0 is ready, and its ops port leads to `ops_port`."""
    kubelet = free_port()
    forward = {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "ClusterPortForward",
        "metadata": {"name": "ops"},
        "spec": {"forwards": [{"target": {"address": "127.0.0.1", "port": ops_port}}]},
    }
    config = tmp_path_factory.mktemp("forward") / "forward.yaml"
    config.write_text(yaml.safe_dump(forward))
    flags = (f"--config={config}", f"--server-address=127.0.0.1:{kubelet}")
    options = Options(controller_manager=True, scheduler=True, kwok_nodes=1, kwok_flags=flags)
    with ControlPlane(options) as plane:
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet}},
        }
        plane.client.patch("/api/v1/nodes/node-0/status", {"status": status})
        plane.client.post("/api/v1/namespaces", {"metadata": {"name": SYSTEM}}, check=False)
        container = {"name": "genguard", "image": "genguard:0.1.0", "ports": [_OPS]}
        body = {"metadata": _POD, "spec": {"containers": [container]}}
        pods = f"/api/v1/namespaces/{SYSTEM}/pods"
        wait_until(lambda: plane.client.post(pods, body, check=False).status == 201, what="a pod")
        wait_until(
            lambda: any(
                one["type"] == "Ready" and one["status"] == "True"
                for one in plane.client.get(f"{pods}/genguard-0")
                .body["status"]
                .get("conditions", ())
            ),
            what="the pod ready",
        )
        yield plane


class Broken(NamedTuple):
    """A Deployment whose rollout hangs, and the server that knows why."""

    plane: ControlPlane
    namespace: str
    path: str
    server: str


@pytest.fixture(scope="module")
def broken(plane: ControlPlane, ops_port: int) -> Iterator[Broken]:
    name = "broken"
    plane.client.post("/api/v1/namespaces", {"metadata": {"name": name}})
    path = f"/apis/apps/v1/namespaces/{name}/deployments"
    with (
        Genguard(
            "--audit-only", f"--kubeconfig={plane.kubeconfig}", f"--ops-port={ops_port}"
        ) as guard,
        WebhookListener(plane.authority, zeroes_observed_generation) as listener,
        listener.registered(plane, name, ("deployments/status",), name=OLD_OPERATOR),
        registered(plane, name, guard),
    ):
        plane.client.post(path, deployment("web", 1))
        loop(plane, f"{path}/web", guard)
        yield Broken(plane, name, f"{path}/web", guard.ops_url)


def loop(plane: ControlPlane, path: str, guard: Genguard) -> None:
    """Change a Deployment until its finding is a loop, and no anomaly any more.

    Its controller answers several changes with one write, where it is slow.
    """
    limits = itertools.count(1)

    def is_loop() -> bool:
        plane.client.patch(path, {"spec": {"revisionHistoryLimit": next(limits)}})
        found = guard.findings()
        return any(one["detector"] == _DETECTOR and one["severity"] != "info" for one in found)

    wait_until(is_loop, what="a loop")


def read(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_findings_are_read_from_the_pod_without_a_server_being_named(broken: Broken) -> None:
    found = read(run(broken.plane, "findings", "-o", "json").out)
    (one,) = [one for one in found if one["detector"] == _DETECTOR]
    assert [actor["name"] for actor in one["actors"]] == [_CULPRIT]
    assert one["object"]["name"] == "web"

    table = run(broken.plane, "findings", "-n", broken.namespace, "deploy/web").out.splitlines()
    assert table[0].split()[:4] == ["ID", "SEVERITY", "STATE", "DETECTOR"]
    assert any(_CULPRIT in line and one["id"] in line for line in table[1:])

    names = run(broken.plane, "findings", "--detector", _DETECTOR, "-o", "name").out
    assert names == f"finding/{one['id']}\n"
    page = run(broken.plane, "explain", names.strip()).out
    assert page.startswith(f"{_DETECTOR}  deployments.apps {broken.namespace}/web")

    none = run(broken.plane, "findings", "-n", "nope")
    assert (none.out, none.err) == ("", "namespace nope is not there\n")
    absent = run(broken.plane, "findings", "--server", "elsewhere", code=1)
    assert "not installed in namespace elsewhere: `genguard scan` needs nothing" in absent.err
    where, name = ("-n", broken.namespace), one["id"]
    assert run(broken.plane, "explain", name).out == page
    assert run(broken.plane, "findings", name, "-o", "name").out == names
    for words in (("deployz",), ("deploy/wep", *where)):
        wrong = run(broken.plane, "findings", *words, code=2)
        assert "did you mean" in wrong.err
    for verb in ("status", "blame", "trace", "findings"):
        wrong = run(broken.plane, verb, "deploy/wep", *where, code=2)
        assert (
            f"no deployments.apps/wep in namespace {broken.namespace}; did you mean web"
            in wrong.err
        )
    blamed = run(broken.plane, "blame", "deploy/web", "status.observedGeneration", *where).out
    assert f"removed by {_CULPRIT} (certain); finding {name}" in blamed
    for words in (("wait", "web"), ("wait", "deploymentz.apps/web"), ("watch", "deployz")):
        assert "there is no kind" in run(broken.plane, *words, code=2).err


def test_the_documented_commands_are_understood(broken: Broken) -> None:
    documented = [
        shlex.split(command, comments=True)[1:]
        for block in blocks("sh")
        for command in commands(block)
        if command.startswith("genguard findings")
    ]
    assert len(documented) > 3
    for words in documented:
        if "-w" not in words:
            run(broken.plane, *words)


def test_status_wait_and_doctor_name_the_culprit_of_a_rollout_that_hangs(broken: Broken) -> None:
    here = ("deploy/web", "-n", broken.namespace)
    lines = read(run(broken.plane, "status", *here, "-o", "json").out)
    (web,) = [one for one in lines if one["kind"] == "Deployment"]
    assert web["settled"] is False
    assert [one["actors"][0]["name"] for one in web["culprits"]][:1] == [_CULPRIT]
    assert (web["apiVersion"], web["group"], len(web["uid"])) == ("apps/v1", "apps", 36)
    assert f"! {_CULPRIT} (certain)" in run(broken.plane, "status", *here).out

    waited = run(broken.plane, "wait", *here, "--timeout", "5s", code=3).out
    assert re.search(rf"timed out after 5 s: .*; blamed: {_CULPRIT} \(certain\)", waited)

    with Verb(broken.plane, "doctor", "-o", "json") as verb:
        checks = {one.get("id"): one for one in read(verb.end().out)}
    assert _CULPRIT in checks["culprits"]["message"]
    assert checks["culprits"]["fix"].startswith("genguard explain finding/")


def test_each_output_is_as_its_schema_says(broken: Broken, tmp_path: Path) -> None:
    plane, here = broken.plane, ("deploy/web", "-n", broken.namespace)
    kinds = "mutatingwebhookconfigurations,services"
    (tmp_path / "hooks.yaml").write_text(plane.kubectl("get", kinds, "-A", "-o", "yaml").stdout)
    lines = [json.dumps(recorded(phase, clobbered(), 1)) for phase in ("intent", "mutate")]
    (tmp_path / "reviews.ndjson").write_text("\n".join([*lines, ""]))
    run_of = {
        "status": ("status", *here),
        "findings": ("findings", "--state", "all"),
        "doctor": ("doctor",),
        "explain": ("explain", "deployments"),
        "blame": ("blame", *here, f"--server={broken.server}"),
        "trace": ("trace", *here, "--poke", "--timeout=3s", "--yes"),
        "lint": ("lint",),
        "scan": ("scan", "--timeout=1s"),
    }
    assert run_of.keys() | {"replay"} == OUTPUTS.keys()
    said = {}
    for output, words in run_of.items():
        with Verb(plane, *words, "-o", "json") as verb:
            said[output] = verb.end().out
        assert said[output], verb.err
    reviews = str(tmp_path / "reviews.ndjson")
    said["replay"] = CliRunner().invoke(main, ["replay", reviews, "-o", "json"]).stdout
    for output, text in said.items():
        schema = schema_of(output)
        Draft202012Validator.check_schema(schema)
        for line in text.splitlines():
            Draft202012Validator(schema).validate(json.loads(line))
            known = _names(schema)
            assert set(json.loads(line)) <= known, (output, set(json.loads(line)) - known)


def _names(schema: dict[str, Any]) -> set[str]:
    """Every field that a schema knows of, at any depth."""
    found: set[str] = set()
    for one in [schema, *schema.get("$defs", {}).values()]:
        found |= one.get("properties", {}).keys()
    return found


def test_a_server_is_reached_by_its_url_too(broken: Broken) -> None:
    server = f"--server={broken.server}"
    done = CliRunner().invoke(main, ["findings", server, "-o", "jsonpath={.actors[0].name}"])
    assert done.exit_code == 0, done.output
    assert _CULPRIT in done.stdout.splitlines()
    # The finding is open, and so the object is not well.
    shown = run(broken.plane, "status", "deploy/web", "-n", broken.namespace, server, code=1).out
    assert f"! {_CULPRIT} (certain)" in shown


def test_a_change_is_followed(broken: Broken) -> None:
    path = broken.path.replace("/web", "")
    with Verb(broken.plane, "findings", "-w", "-o", "name") as verb:
        verb.says("finding/")
        first = set(verb.lines)
        broken.plane.client.post(path, deployment("cart", 1))
        for number in range(1, 6):
            broken.plane.client.patch(f"{path}/cart", {"spec": {"revisionHistoryLimit": number}})
        later = wait_until(lambda: set(verb.lines) - first, what="another finding")
    assert all(one.startswith("finding/") for one in later)


def test_the_documented_role_is_enough_and_less_is_not(broken: Broken, tmp_path: Path) -> None:
    text = (ROOT / "docs" / "findings.md").read_text()
    (block,) = [
        one for one in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL) if "kind: Role" in one
    ]
    role = yaml.safe_load(block)
    account = {"apiVersion": "v1", "kind": "ServiceAccount"}
    account |= {"metadata": {"name": "reader", "namespace": SYSTEM}}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "reader", "namespace": SYSTEM},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "Role",
            "name": role["metadata"]["name"],
        },
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": SYSTEM}],
    }
    plane = broken.plane
    less = role | {"rules": role["rules"][:1]}
    for granted_role, code in ((role, 0), (less, 1)):
        with granted(plane, [account, granted_role, binding]):
            path = f"/api/v1/namespaces/{SYSTEM}/serviceaccounts/reader/token"
            token = plane.client.post(path, {"spec": {}}).body["status"]["token"]
            config = plane.write_kubeconfig(tmp_path / "kubeconfig", token)
            with Verb(plane, "findings", f"--kubeconfig={config}", "-o", "name") as verb:
                verb.end()
            assert verb.code == code, verb.err
    assert "Forbidden (403)" in verb.err
    assert "the right to get and create pods/portforward" in verb.err


def test_conditions_and_deletions_are_waited_for_as_kubectl_does(
    plane: ControlPlane, namespace: NamespaceFactory
) -> None:
    name = namespace(plane)
    path = f"/apis/apps/v1/namespaces/{name}/deployments"
    plane.client.post(path, deployment("web", 1))
    here = ("deploy/web", "-n", name)
    plane.kubectl("wait", "--for=condition=available", *here, "--timeout=60s")
    done = run(plane, "wait", "--for=condition=available", *here, "--timeout=60s").out
    assert done.startswith("reached condition=available: Deployment/web")
    late = run(plane, "wait", "--for=condition=Available=False", *here, "--timeout=1s", code=3).out
    assert "status.conditions[Available] True, want False" in late
    with Verb(plane, "wait", "--for=delete", *here, "--timeout=60s") as verb:
        verb.says("nobody has deleted it")
        plane.client.delete(f"{path}/web")
        verb.says("reached delete")
        verb.ends(0)
    assert "reached delete" in run(plane, "wait", "--for=delete", *here).out
