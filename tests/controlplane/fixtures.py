"""Pytest fixtures that hand a real control plane to tests; each xdist worker has its own."""

import itertools
from collections.abc import Callable, Iterator

import pytest

from tests.controlplane.client import wait_until
from tests.controlplane.options import EVERY_API, FULL_CLUSTER
from tests.controlplane.plane import ControlPlane

NamespaceFactory = Callable[[ControlPlane], str]
_numbers = itertools.count()


@pytest.fixture(scope="session")
def apiserver() -> Iterator[ControlPlane]:
    """etcd and an API server that serves every persisted resource; no controllers."""
    with ControlPlane(EVERY_API) as plane:
        yield plane


@pytest.fixture(scope="session")
def cluster() -> Iterator[ControlPlane]:
    """A whole cluster: controllers, scheduler and three nodes on which pods become ready."""
    with ControlPlane(FULL_CLUSTER) as plane:
        yield plane


@pytest.fixture
def namespace(request: pytest.FixtureRequest) -> Iterator[NamespaceFactory]:
    """`namespace(cluster)` makes a namespace for this test alone; deleted behind its back."""
    made: list[tuple[ControlPlane, str]] = []

    def make(plane: ControlPlane) -> str:
        name = f"test-{next(_numbers)}"
        labels = {"genguard.io/test": request.node.originalname[:63].strip("_-")}
        body = {"metadata": {"name": name, "labels": labels}}
        plane.client.post("/api/v1/namespaces", body)
        made.append((plane, name))
        if plane.options.controller_manager:
            # Pods are refused until the controller has made the service account.
            account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
            wait_until(lambda: plane.client.get(account).body, what=f"the account of {name}")
        return name

    yield make
    for plane, name in made:
        if plane.options.controller_manager:  # without it a namespace is never finalized
            plane.client.delete(f"/api/v1/namespaces/{name}", check=False)
