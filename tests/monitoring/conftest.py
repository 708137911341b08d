"""What a running server exports."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from certs import ensure
from tests.e2e.genguard import RECORD, Genguard

EVERYTHING = (
    "--watch=pods,replicasets.apps,deployments.apps",
    "--object-metrics=10",
    "--flip-status=unknown.example.org",
    "--registrations=follow",
    RECORD,
)
"""Flags that add metrics; each needs a cluster, or does no harm without one."""
KEPT = "--store=sqlite:kept.db"
"""Instead of a store that is shared."""


def from_secret(kubeconfig: Path, folder: Path) -> tuple[str, ...]:
    """Flags: the certificate is that of a Secret, which is not there, so files are served."""
    ensure(folder, names=["localhost"], at=datetime.now(UTC))
    files = (f"--tls-cert-file={folder}/tls.crt", f"--tls-private-key-file={folder}/tls.key")
    return (f"--kubeconfig={kubeconfig}", "--cert-secret=not-there", *files)


_NOWHERE = {
    "current-context": "nowhere",
    "contexts": [{"name": "nowhere", "context": {"cluster": "nowhere", "user": "nobody"}}],
    "clusters": [{"name": "nowhere", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "nobody", "user": {"token": "none"}}],
}


def exported_by(guard: Genguard) -> set[str]:
    """Every metric's name as an expression has it, also of those without a sample yet."""
    return set(re.findall(r"^# TYPE (\S+)", guard.ops("/metrics")[1], re.MULTILINE))


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[set[str]]:
    """Of two servers with every flag that adds metrics: cluster and store do not answer."""
    kubeconfig = tmp_path_factory.mktemp("nowhere") / "kubeconfig"
    kubeconfig.write_text(json.dumps(_NOWHERE))
    flags = (f"--kubeconfig={kubeconfig}", "--store=valkey://127.0.0.1:1", *EVERYTHING)
    secret = from_secret(kubeconfig, kubeconfig.parent / "certs")
    with Genguard(*flags) as guard, Genguard(KEPT, *secret) as alone:
        yield exported_by(guard) | exported_by(alone)
