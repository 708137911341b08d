"""Every command of the README and of docs/ is run here, or by the test it names."""

import doctest
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests import runbook_commands as helpful
from tests.controlplane.client import wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.e2e.culprits import deployment
from tests.e2e.genguard import ROOT
from tests.e2e.kubelet import PLANE, PORT_LOCK, Kubelet
from tests.locking import locked
from tests.readme.commands import Shell, blocks, commands, commands_of
from tools.published import current

RUN = "make run"
CONTRIBUTING = (ROOT / "CONTRIBUTING.md",)
INSTALL = (
    "genguard install --audit-only --dry-run",
    "genguard install --audit-only",
    "genguard uninstall",
)
STATUS = (
    "genguard wait deploy/web",
    "genguard wait deploy/web --for reconciled=4",
    "genguard wait -f app.yaml --timeout 10m",
    "kubectl get deploy,rs,pods -o yaml | genguard status -f -",
    "genguard status -f objects.ndjson -o json",
)
NAMES = {one: getattr(current(), one) for one in ("registry", "version", "address")}
ELSEWHERE = {
    command.format_map(NAMES): test
    for test, found in yaml.safe_load(
        Path(__file__).with_name("elsewhere.yaml").read_text()
    ).items()
    for command in found
} | dict.fromkeys(commands_of("traces.md"), "tests/e2e/test_opentelemetry.py")


HELP = ("docs/troubleshooting.md", "docs/upgrade.md")
"""Their commands run in tests/kind. Those that need no genguard in the cluster also run below."""


def every_command() -> list[str]:
    return [one for block in blocks("sh") for one in commands(block)]


def test_no_documented_command_is_left_out() -> None:
    helping = {one.text for one in helpful.commands() if one.page in HELP}
    # tests/e2e/test_findings.py runs these beside a server that has findings.
    found = {one for one in every_command() if one.startswith("genguard findings")}
    ran = {RUN, *INSTALL, *STATUS, *ELSEWHERE, *helping}
    assert set(every_command()) - found == ran - found


def test_the_first_review_is_answered_as_shown() -> None:
    (review,) = (one for one in blocks("sh", CONTRIBUTING) if one.startswith("curl "))
    command = [*RUN.split(), "--old-file=shipped", f"VENV={sys.prefix}"]  # installed by now
    with locked(PORT_LOCK), subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE) as server:
        assert server.stderr is not None
        try:
            said = server.stderr.readline()
            while b'"serving"' not in said:
                said = server.stderr.readline() or pytest.fail(f"it ended: {said!r}")
            done = subprocess.run(
                ["bash", "-c", review], cwd=ROOT, capture_output=True, text=True, check=True
            )
        finally:
            server.terminate()
    (shown,) = blocks("json", CONTRIBUTING)
    assert json.loads(done.stdout) == json.loads(shown)


def test_it_is_installed_and_uninstalled(tmp_path: Path) -> None:
    with ControlPlane(PLANE) as plane, Kubelet(plane):
        shell = Shell(tmp_path, plane.kubeconfig)
        dry, install, uninstall = INSTALL
        assert "create" in shell.run(dry)
        assert "3/3" in shell.run_and_agree(install)
        ports = "kubectl -n genguard-system get deployment/genguard -o jsonpath={..containerPort}"
        assert "8080" in shell.run(ports).split()
        assert "ok   reached" in shell.run("genguard doctor || true")
        shell.run_and_agree(uninstall)
        wait_until(lambda: "genguard" not in shell.run("kubectl get namespaces"), what="gone")


def test_a_rollout_is_waited_for(
    cluster: ControlPlane, namespace: NamespaceFactory, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.write_bytes(cluster.kubeconfig.read_bytes())
    shell = Shell(tmp_path, config)
    shell.run(f"kubectl config set-context --current --namespace={namespace(cluster)}")
    app = {"apiVersion": "apps/v1", "kind": "Deployment", **deployment()}
    (tmp_path / "app.yaml").write_text(json.dumps(app))
    shell.run("kubectl apply -f app.yaml")
    for replicas in (3, 2, 3):
        shell.run(f"kubectl scale deploy/web --replicas={replicas}")
    shell.run("kubectl get deploy/web -o json > objects.ndjson")
    wait, reconciled, file, tree, lines = STATUS
    assert "reached ready and settled" in shell.run(wait)
    assert "reached" in shell.run(reconciled)
    assert "reached" in shell.run(file)
    assert "Deployment/web" in shell.run(tree)
    assert json.loads(shell.run(lines))["name"] == "web"


def test_a_symptom_is_looked_into(
    cluster: ControlPlane, namespace: NamespaceFactory, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.write_bytes(cluster.kubeconfig.read_bytes())
    shell = Shell(tmp_path, config)
    values = {
        "NAMESPACE": namespace(cluster),
        "KIND": "deployment",
        "RESOURCE": "deployments.apps",
        "NAME": "web",
        "PATCH": '{"metadata":{"labels":{"team":"shop"}}}',
    }
    shell.run(f"kubectl -n {values['NAMESPACE']} create deployment web --image=image:1")
    shell.run(f"kubectl -n {values['NAMESPACE']} rollout status deployment/web")
    tried = [
        one
        for one in helpful.commands()
        if one.page == HELP[0] and not re.search("genguard-system|doctor", one.text)
    ]
    assert len(tried) > 10
    for one in tried:
        shell.run(f"{one.filled(values)}{' || true' if '| grep' in one.text else ''}")


def test_the_library_answers_as_shown() -> None:
    (example,) = (one for one in blocks("python") if one.startswith(">>>"))
    found = doctest.DocTestParser().get_doctest(example, {}, "README", "README.md", 0)
    assert doctest.DocTestRunner().run(found).failed == 0
