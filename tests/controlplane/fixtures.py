"""Pytest fixtures that hand a real control plane to tests; the workers of a run share it."""

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.controlplane.client import wait_until
from tests.controlplane.options import AUDITED, EVERY_API, FULL_CLUSTER, Options
from tests.controlplane.plane import ControlPlane
from tests.locking import locked

NamespaceFactory = Callable[[ControlPlane], str]
_numbers = itertools.count()
WORKER = "".join(f"-{one}" for one in [os.environ.get("PYTEST_XDIST_WORKER")] if one)
"""What a name ends with that each worker of a run has once."""


def unique(name: str) -> str:
    """The name, with a number that no other test of this run gets."""
    return f"{name}{WORKER}-{next(_numbers)}"


@pytest.fixture(scope="session")
def run_folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the workers of this run share."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if hasattr(request.config, "workerinput") else own


@contextmanager
def shared(options: Options, name: str, folder: Path) -> Iterator[ControlPlane]:
    """The control plane of this name: the first that needs it starts it, the last ends it."""
    found = folder / f"{name}.plane"
    with locked(folder / f"{name}.lock"):
        plane = ControlPlane.joined(Path(found.read_text()), options) if found.exists() else None
        if plane is None:
            plane = ControlPlane(options, shared=True)
            plane.__enter__()
            found.write_text(str(plane.folder))
    with plane:
        yield plane


@pytest.fixture(scope="session")
def apiserver(run_folder: Path) -> Iterator[ControlPlane]:
    """etcd and an API server, whose audit log has requests and answers; no controllers.

    Tests of all workers use it at once: each has a namespace, and names of its own for what is in
    none.
    """
    with shared(AUDITED, "apiserver", run_folder) as plane:
        yield plane


@pytest.fixture(scope="session")
def every_api(run_folder: Path) -> Iterator[ControlPlane]:
    """The same, for every persisted resource."""
    with shared(EVERY_API, "every-api", run_folder) as plane:
        yield plane


@pytest.fixture(scope="session")
def cluster(run_folder: Path) -> Iterator[ControlPlane]:
    """A whole cluster: controllers, scheduler and three nodes on which pods become ready."""
    with shared(FULL_CLUSTER, "cluster", run_folder) as plane:
        yield plane


@pytest.fixture
def namespace(request: pytest.FixtureRequest) -> Iterator[NamespaceFactory]:
    """`namespace(cluster)` makes a namespace for this test alone; deleted behind its back."""
    made: list[tuple[ControlPlane, str]] = []

    def make(plane: ControlPlane) -> str:
        name = unique("test")
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
