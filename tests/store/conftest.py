"""One store for a module, and two replicas that share it."""

from collections.abc import Iterator

import pytest

from tests.controlplane.client import wait_until
from tests.store.proxy import Proxy
from tests.store.replica import Replica
from tests.store.server import StoreServer


@pytest.fixture(scope="module")
def store() -> Iterator[StoreServer]:
    with StoreServer() as server:
        yield server


@pytest.fixture(scope="module")
def proxy(store: StoreServer) -> Iterator[Proxy]:
    with Proxy(store.socket) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def replicas(proxy: Proxy) -> Iterator[tuple[Replica, Replica]]:
    flag = f"--store=valkey://127.0.0.1:{proxy.port}/0"
    with Replica(flag) as one, Replica(flag) as other:
        for replica in (one, other):
            wait_until(lambda replica=replica: replica.has_store, what="store asked")
        yield one, other
