"""`genguard scan` on a real cluster: it names who strips, who fights and what is stuck."""

import time
from contextlib import ExitStack
from pathlib import Path

from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.e2e.account import Account
from tests.e2e.six_culprits import assert_all_are_named, assert_only_dry_runs, six_culprits
from tests.e2e.verbs import Verb


def scans(plane: ControlPlane, account: str, folder: Path, *flags: str) -> Verb:
    found = Account(plane, "default", folder / account, account)
    found.client.close()
    return Verb(plane, "scan", "--timeout=20s", f"--kubeconfig={found.kubeconfig}", *flags)


def test_a_scan_names_six_culprits_and_stores_nothing(
    cluster: ControlPlane, namespace: NamespaceFactory, tmp_path: Path
) -> None:
    namespaces = namespace(cluster), namespace(cluster)

    def kubectl(*words: str, text: str) -> None:
        cluster.kubectl(*words, stdin=text)

    culprits = six_culprits(cluster, kubectl, cluster.authority, namespaces)
    with culprits as names, ExitStack() as stack:
        began = time.monotonic()
        scan, reading, shown = (
            stack.enter_context(scans(cluster, who, tmp_path, *flags))
            for who, *flags in ((names.all, "-o", "json"), (names.read, "-o", "json"), (names.all,))
        )
        for one in (scan, reading, shown):
            one.ends(1)
        assert time.monotonic() - began < 50  # meant: with the usual 60 s that is 90

    assert_all_are_named(names, scan.out, reading.out)
    assert "objects of 13 kinds as dry runs" in scan.err
    assert reading.err.count("you may not create them") == 1
    page = shown.out.splitlines()
    assert len(page) <= 20
    told = [line.split()[1] for line in page if not line.startswith("kubectl")]
    assert told[:3] == [*2 * ["field-stripped:"], "webhook-fails:"]
    assert_only_dry_runs(names, cluster.audit_log.read_text())


def test_a_cluster_that_cannot_be_asked_is_told_apart_from_one_that_is_well(
    apiserver: ControlPlane, tmp_path: Path
) -> None:
    nobody = apiserver.write_kubeconfig(tmp_path / "kubeconfig", "no-token")
    with Verb(apiserver, "scan", "--timeout=1s", f"--kubeconfig={nobody}") as scan:
        scan.ends(2)
    assert "log in again" in scan.err or "Unauthorized" in scan.err
