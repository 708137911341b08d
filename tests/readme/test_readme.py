"""Every command of the README and of docs/ is run here, or by the test it names."""

import doctest
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

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
REVIEW = "curl -sS --cacert .certs/ca.crt"
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
PORTS = "-p 127.0.0.1:8443:8443 -p 127.0.0.1:8080:8080"
IMAGE = "tests/kind/core/test_image.py"
CHART = "tests/e2e/test_chart.py, with the chart of this folder"
KREW = "tests/supply/test_krew.py, with the archive of these sources"
RELEASED = current()
OCI = f"oci://{RELEASED.registry}/charts/genguard -n genguard-system"
PIPX = "tests/supply/test_pipx.py"
RELEASE = "tests/supply/test_release.py, with the files of these sources"
DOCUMENTED = "tests/library/test_documented.py, with what is installed"
PROBES = "tests/unit/status/test_wait_goal.py"
PUBLISH = "tests/e2e/test_publish_status.py"
FOLLOWS = "tests/e2e/test_rules.py, with every right"
RIGHTS = "tests/integration/test_ops_tokens.py"
ELSEWHERE = {
    "make demo": "tests/demo/test_demo.py",
    "make test": "this run",
    "genguard replay --crds crds.yaml --webhooks policies.yaml audit-2026-11-20.log.gz audit.log": (
        "tests/integration/test_audit_log.py"
    ),
    "genguard uninstall --registrations-only": "tests/e2e/test_install.py",
    "kubectl delete -k manifests/base/registrations": "tests/kind/whole/test_switches.py",
    "pipx install .": PIPX,
    "genguard version": PIPX,
    "pipx install genguard-webhook": RELEASE,
    f"docker run --rm {RELEASED.registry}:{RELEASED.version} version": RELEASE,
    f"helm show readme oci://{RELEASED.registry}/charts/genguard --version {RELEASED.version}": (
        RELEASE
    ),
    "kubectl krew install --manifest-url="
    f"{RELEASED.address}/releases/download/v{RELEASED.version}/genguard.yaml": KREW,
    "docker build -t genguard:local .": IMAGE,
    f"docker run --rm --read-only --tmpfs /tmp {PORTS} genguard:local": IMAGE,
    "(umask 077; openssl rand -hex 32 > token)": IMAGE,
    f'docker run --rm --user "$(id -u):$(id -g)" -v "$PWD/token:/run/token:ro" {PORTS} '
    "genguard:local serve --ops-auth token-file=/run/token": IMAGE,
    f"helm upgrade --install genguard {OCI} --create-namespace --set auditOnly=true": CHART,
    "helm upgrade --install genguard charts/genguard -n genguard-system --create-namespace "
    "--set auditOnly=true \\\n  --set image.repository=genguard --set image.tag=local": CHART,
    "helm uninstall genguard -n genguard-system": CHART,
    "kubectl -n genguard-system logs job/genguard-register": "tests/e2e/test_chart.py, as a file",
    "genguard doctor": "tests/e2e/test_doctor.py",
    **dict.fromkeys(commands_of("traces.md"), "tests/e2e/test_opentelemetry.py"),
    "python -m pip install genguard kubernetes kopf pytest": DOCUMENTED,
    "python -m pytest": DOCUMENTED,
    "kubectl genguard status -A": KREW,
    "genguard wait deploy/web --for traffic-ready": PROBES,
    "genguard wait deploy/shop --for ready --for qualified": PROBES,
    "kubectl annotate deployment web genguard.io/depends-on="
    "SQLInstance.sql.example.org/orders,Service/cache": PUBLISH,
    "kubectl label widget one genguard.io/publish-status=true": PUBLISH,
    "genguard publish-status widgets.example.org -n shop": PUBLISH,
    "genguard rules test databases.yaml": "tests/unit/cli/test_rules.py",
    "genguard status db -A --rules databases.yaml": "tests/unit/cli/test_rules.py, of a file",
    "genguard serve --rules databases.yaml": "tests/unit/cli/test_serve.py",
    "kubectl -n genguard-system create configmap genguard-rules "
    "--from-file=databases.yaml": FOLLOWS,
    "kubectl -n genguard-system create role genguard-rules --verb=get,list,watch "
    "--resource=configmaps --resource-name=genguard-rules": FOLLOWS,
    "kubectl -n genguard-system create rolebinding genguard-rules --role=genguard-rules "
    "--serviceaccount=genguard-system:genguard": FOLLOWS,
    "genguard watch": "tests/e2e/test_watch.py, and its rights in tests/rights",
    "genguard watch services configmaps -n shop": "tests/e2e/test_watch.py, of other kinds",
    "genguard dashboard": "tests/unit/cli/test_dashboard.py, and its rights in tests/rights",
    "kubectl -n genguard-system port-forward deployment/genguard 8080": "by a kubelet alone; that "
    "the port is there is seen below",
}


HELP = ("docs/troubleshooting.md", "docs/upgrade.md")
"""Their commands run in tests/kind. Those that need no genguard in the cluster also run below."""


def every_command() -> list[str]:
    return [one for block in blocks("sh") for one in commands(block)]


def review() -> str:
    return next(one for one in every_command() if one.startswith(REVIEW))


def test_no_documented_command_is_left_out() -> None:
    helping = {one.text for one in helpful.commands() if one.page in HELP}
    # tests/e2e/test_findings.py runs these beside a server that has findings.
    found = {one for one in every_command() if one.startswith("genguard findings")}
    ran = {RUN, review(), *INSTALL, *STATUS, *ELSEWHERE, *helping}
    assert set(every_command()) - found == ran - found


def test_the_first_review_is_answered_as_shown() -> None:
    command = [*RUN.split(), "--old-file=shipped", f"VENV={sys.prefix}"]  # installed by now
    with locked(PORT_LOCK), subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE) as server:
        assert server.stderr is not None
        try:
            said = server.stderr.readline()
            while b'"serving"' not in said:
                said = server.stderr.readline() or pytest.fail(f"it ended: {said!r}")
            done = subprocess.run(
                ["bash", "-c", review()], cwd=ROOT, capture_output=True, text=True, check=True
            )
        finally:
            server.terminate()
    (shown,) = blocks("json")
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
