"""The pods renew their certificate in the cluster while writes go on."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from certs import issue, service_names, write_files
from tests.controlplane.client import wait_until
from tests.e2e.traffic import passed_unseen
from tests.kind.cluster import SYSTEM, Cluster, Figure
from tests.kind.culprit import Culprit
from tests.kind.draws import MANY, restored
from tests.kind.load import Load

LIFETIME = timedelta(days=30)
SKEW = timedelta(hours=1)
LEFT = timedelta(minutes=4)
"""Time to install it, before it is renewed at two thirds of its life."""


def test_a_certificate_of_20_days_is_rotated_and_no_write_fails_or_passes_unseen(
    cluster: Cluster, culprit: Culprit, figure: Figure, tmp_path: Path
) -> None:
    cluster.ensure(audit_only=False)
    # Its life begins an hour before it is issued: CLOCK_SKEW of certs/issue.py.
    begin = datetime.now(UTC) - (LIFETIME + SKEW) * 2 / 3 + LEFT
    at = begin + SKEW
    names = service_names("genguard", SYSTEM)
    old = issue(names=names, at=at, leaf_lifetime=LIFETIME)
    files = {"tls.crt": old.leaf.cert_pem, "tls.key": old.leaf.key_pem}
    write_files(tmp_path, {**files, "ca.crt": old.authority.cert_pem})
    image = cluster.container()["image"]
    cluster.genguard("install", "--yes", "--image", image, "--cert-dir", str(tmp_path))
    before, unseen = served(cluster), passed_unseen(cluster)
    with Load(cluster, "rotation") as load:
        wait_until(lambda: served(cluster) != before, 420, every=2, what="a new certificate")
        load.go_on(30)
        tally = load.tally
    missed = passed_unseen(cluster) - unseen
    assert tally.failures == ()
    assert missed == 0
    assert restored(cluster, culprit, "rotated") == MANY
    figure(f"{tally}; {missed:.0f} passed unseen")


def served(cluster: Cluster) -> str:
    """The leaf that pods serve, as the Secret has it."""
    return str(cluster.get("-n", SYSTEM, "secret", "genguard-tls")["data"]["tls.crt"])
