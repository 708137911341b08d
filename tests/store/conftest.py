"""One store for a module, and a way to it that can be cut."""

from collections.abc import Iterator

import pytest

from tests.store.proxy import Proxy
from tests.store.server import StoreServer


@pytest.fixture(scope="module")
def store() -> Iterator[StoreServer]:
    with StoreServer() as server:
        yield server


@pytest.fixture(scope="module")
def proxy(store: StoreServer) -> Iterator[Proxy]:
    with Proxy(store.socket) as proxy:
        yield proxy
