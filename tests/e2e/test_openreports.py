"""Findings and lint as Reports, with the definitions of OpenReports on a real API server."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from genguard.linting.openreports import report_of
from tests.controlplane.client import wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.e2e.account import Account, account
from tests.e2e.genguard import ROOT, Genguard
from tests.e2e.registrations import registered, rule
from tests.e2e.test_rollout import Web, old_operator
from tests.openreports import definitions
from tests.unit.lint.test_checks import configuration
from webhook.cli import main
from webhook.manifest.documents import path_of

SYSTEM = "genguard-reports"
API = "/apis/openreports.io/v1alpha1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DETECTOR = "observed-generation-cleared"


@pytest.fixture(scope="module", autouse=True)
def reports(cluster: ControlPlane) -> Iterator[None]:
    for one in definitions():
        cluster.client.post(CRDS, one)
    for plural in ("reports", "clusterreports"):
        path = f"{API}/{plural}"
        wait_until(
            lambda path=path: cluster.client.get(path, check=False).status == 200, what=plural
        )
    yield
    for one in definitions():
        cluster.client.delete(f"{CRDS}/{one['metadata']['name']}")


def rights() -> list[dict[str, Any]]:
    text = (ROOT / "manifests" / "reports" / "access.yaml").read_text()
    return list(yaml.safe_load_all(text.replace("genguard-system", SYSTEM)))


@pytest.fixture(scope="module")
def owner(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    """genguard's account, with the rights of manifests/reports beside those of the base."""
    kubeconfig = tmp_path_factory.mktemp("account") / "kubeconfig"
    with account(cluster, SYSTEM, kubeconfig) as found:
        for one in rights():
            cluster.client.post(path_of(one).rpartition("/")[0], one)
        yield found
        for one in rights():
            cluster.client.delete(path_of(one))
        leases = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases"
        cluster.client.delete(f"{leases}/genguard", check=False)


def report_in(cluster: ControlPlane, namespace: str) -> dict[str, Any] | None:
    path = f"{API}/namespaces/{namespace}/reports/genguard"
    found = cluster.client.get(path, check=False)
    return found.body if found.status == 200 else None


def test_a_finding_is_in_the_report_of_its_namespace_until_it_is_over(
    cluster: ControlPlane, namespace: NamespaceFactory, owner: Account
) -> None:
    flags = (f"--kubeconfig={owner.kubeconfig}", "--reports")
    web = Web(cluster, namespace(cluster))
    # genguard sees its own writes of reports too, and finds nothing in them.
    own = [rule(["reports", "clusterreports"], group="openreports.io")]
    foreign = {
        "apiVersion": "openreports.io/v1alpha1",
        "kind": "Report",
        "metadata": {"name": "of-another-tool"},
        "source": "another",
    }
    cluster.client.post(f"{API}/namespaces/{web.namespace}/reports", foreign)
    with (
        old_operator(cluster, web.namespace),
        Genguard("--audit-only", *flags) as guard,
        registered(cluster, web.namespace, guard, rules=own),
    ):
        web.create()
        web.available("image:1")
        web.hangs()
        report = wait_until(lambda: report_in(cluster, web.namespace), timeout=120, what="a report")
        result = next(one for one in report["results"] if one["policy"] == DETECTOR)
        (resource,) = result["resources"]
        assert (resource["kind"], resource["name"]) == ("Deployment", "web")
        assert resource["uid"] == web.get()["metadata"]["uid"]
        verdict = result["result"], result["severity"]
        assert verdict in (("warn", "medium"), ("fail", "critical"))
        assert result["source"] == report["source"] == "genguard"
        assert result["timestamp"]["seconds"] > 1_700_000_000
        assert "mmm-old-operator" in result["properties"]["actors"]
        assert report["summary"]["fail"] + report["summary"]["warn"] == len(report["results"])
        listed = cluster.kubectl("get", "reports", "-n", web.namespace).stdout
        assert "genguard" in listed
        assert guard.metric("genguard_report_writes_total", result="written") >= 1
        assert guard.metric("genguard_report_writes_total", result="failed") == 0
        assert guard.metric("genguard_reviews_total", resource="reports.openreports.io") > 0
        found = guard.findings()
        assert not [one for one in found if one["object"]["group"] == "openreports.io"]
    # The next leader knows of no finding: what the last one wrote is over.
    with Genguard("--audit-only", *flags) as guard:
        wait_until(lambda: report_in(cluster, web.namespace) is None, timeout=120, what="its end")
        assert guard.metric("genguard_report_writes_total", result="deleted") == 1
    stays = f"{API}/namespaces/{web.namespace}/reports/of-another-tool"
    assert cluster.client.get(stays).body["source"] == "another"


def test_without_the_rights_it_says_so_and_serves_on(cluster: ControlPlane, owner: Account) -> None:
    binding = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    (bound,) = (one for one in rights() if one["kind"] == "ClusterRoleBinding")
    cluster.client.delete(f"{binding}/genguard-reports")
    try:
        wait_until(lambda: owner.client.get(f"{API}/reports", check=False).status == 403)
        with Genguard("--reports", f"--kubeconfig={owner.kubeconfig}") as guard:
            lines = wait_until(lambda: guard.log_lines("reports not written"), 60, what="a line")
            assert [one["reason"] for one in lines] == ["403"]
            assert guard.ops("/readyz")[0] == 200
    finally:
        cluster.client.post(binding, bound)


def test_a_report_for_a_namespace_that_is_gone_is_refused_as_the_writer_expects(
    cluster: ControlPlane, owner: Account
) -> None:
    path = f"{API}/namespaces/never-there/reports/genguard?fieldManager=genguard&force=true"
    body = report_of("never-there", "genguard", [])
    refused = owner.client.patch(
        path, body, content_type="application/apply-patch+yaml", check=False
    )
    assert refused.status == 404
    assert 'namespaces "never-there" not found' in refused.body["message"]


def test_kubectl_applies_what_lint_prints(cluster: ControlPlane, tmp_path: Path) -> None:
    hooks = tmp_path / "hooks.yaml"
    hooks.write_text(yaml.safe_dump(configuration("bad", {"sideEffects": "Some"})))
    done = CliRunner().invoke(main, ["lint", "-o", "openreports", str(hooks)])
    report = tmp_path / "report.json"
    report.write_text(done.stdout)
    cluster.kubectl("apply", "-f", str(report))
    stored = cluster.client.get(f"{API}/clusterreports/genguard-lint").body
    sent = json.loads(done.stdout)
    assert stored["results"] == sent["results"]  # nothing is pruned
    assert stored["summary"]["fail"] > 0
