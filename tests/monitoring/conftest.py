"""What a running server exports."""

import json
import re
from collections.abc import Iterator

import pytest

from tests.e2e.genguard import RECORD, Genguard

EVERYTHING = (
    "--watch=pods,replicasets.apps,deployments.apps",
    "--object-metrics=10",
    "--flip-status=unknown.example.org",
    RECORD,
)
"""Flags that add metrics; each needs a cluster, or does no harm without one."""
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
    """Of a server with every flag that adds metrics, and a cluster that does not answer."""
    kubeconfig = tmp_path_factory.mktemp("nowhere") / "kubeconfig"
    kubeconfig.write_text(json.dumps(_NOWHERE))
    with Genguard(f"--kubeconfig={kubeconfig}", *EVERYTHING) as guard:
        yield exported_by(guard)
