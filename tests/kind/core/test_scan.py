"""`genguard scan` and `genguard replay` in a cluster of kind, by people who have just met it."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.controlplane.certificates import Authority
from tests.controlplane.client import wait_until
from tests.e2e.six_culprits import Names, assert_all_are_named, assert_only_dry_runs, six_culprits
from tests.kind.cluster import Cluster, Figure
from tests.kind.commands import Done

NODE = "genguard-control-plane"
MANIFEST = "/etc/kubernetes/manifests/kube-apiserver.yaml"
POLICY = "/etc/kubernetes/pki/audit-policy.yaml"
"""The API server's pod has this folder of its node already."""
RULES = json.dumps(
    {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "RequestResponse"}]}
)
AUDITING = f"""
echo '{RULES}' > {POLICY}
sed 's|^    - kube-apiserver$|&\\n    - --audit-policy-file={POLICY}\\n    - --audit-log-path=-|' \\
  {MANIFEST} > /manifest && cp /manifest {MANIFEST}
"""
PRINTED = 'crictl logs "$(crictl ps --quiet --latest --name kube-apiserver)" 2>/dev/null'


@pytest.fixture(scope="module")
def names(cluster: Cluster) -> Iterator[Names]:
    """Six culprits, in a cluster that has no genguard; its API server writes an audit log."""
    cluster.genguard("uninstall", "--yes")
    cluster.run("docker", "exec", NODE, "sh", "-c", AUDITING)
    wait_until(lambda: audit_log(cluster), 180, every=3, what="an audit log")
    wait_until(lambda: _is_well(cluster), 180, every=3, what="the API server that has it")
    for one in ("harmed", "other"):
        cluster.namespace(one)
    words = ("docker", "network", "inspect", "kind", "--format", "{{json .IPAM.Config}}")
    networks = json.loads(cluster.run(*words).stdout)
    at = next(one["Gateway"] for one in networks if "." in one.get("Gateway", ""))
    with six_culprits(cluster, cluster.kubectl, Authority(), ("harmed", "other"), at) as found:
        yield found


def test_a_scan_names_six_culprits_within_90_seconds_and_stores_nothing(
    cluster: Cluster, names: Names, figure: Figure, tmp_path: Path
) -> None:
    began = time.monotonic()
    with ThreadPoolExecutor() as pool:
        both = [pool.submit(scan, cluster, who, tmp_path) for who in (names.all, names.read)]
        done, reading = (one.result() for one in both)
    seconds = time.monotonic() - began
    assert_all_are_named(names, done.stdout, reading.stdout)
    count = assert_only_dry_runs(names, audit_log(cluster))
    figure(f"6 of 6 within {seconds:.0f} s; {count} writes, all of them dry runs")
    assert seconds < 90


@pytest.mark.usefixtures("names")
def test_replay_finds_the_audit_log_of_kind_by_itself(cluster: Cluster, figure: Figure) -> None:
    done = cluster.genguard("replay", check=False)
    (line,) = (one for one in done.stdout.splitlines() if "harmed/settings" in one)
    assert "helm" in line
    assert "operator" in line
    figure(next(one for one in done.stderr.splitlines() if "reading" in one))


def scan(cluster: Cluster, account: str, folder: Path) -> Done:
    """Scan as this account, with the rest of the kubeconfig as it is."""
    file = folder / account
    file.write_text(cluster.kubectl("config", "view", "--raw", "--flatten"))
    token = cluster.kubectl("-n", "default", "create", "token", account).strip()
    config = ("config", f"--kubeconfig={file}")
    cluster.kubectl(*config, "set-credentials", account, f"--token={token}")
    cluster.kubectl(*config, "set-context", "--current", f"--user={account}")
    return cluster.genguard("scan", f"--kubeconfig={file}", "-o", "json", check=False)


def audit_log(cluster: Cluster) -> str:
    """What the API server has written to its standard output."""
    return cluster.run("docker", "exec", NODE, "sh", "-c", PRINTED, check=False).stdout


def _is_well(cluster: Cluster) -> bool:
    return cluster.run("kubectl", "get", "--raw", "/readyz", check=False).returncode == 0
