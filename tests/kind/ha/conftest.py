"""A cluster with two API servers, and genguard with three replicas and a Valkey of its own."""

from pathlib import Path

import pytest

from tests.kind.cluster import Cluster, exists
from tests.kind.images import build

CONFIG = Path(__file__).parent / "cluster.yaml"


@pytest.fixture(scope="session")
def cluster(kubeconfig: Path) -> Cluster:
    """The cluster is there already when `kind.sh up --ha` is run, with the store's image in it."""
    store = build("valkey")
    found = Cluster(kubeconfig, ("--ha", "--store-image", store))
    if not exists():
        found.run("kind", "create", "cluster", "--config", str(CONFIG), "--wait", "3m")
        found.load(store)
    return found
