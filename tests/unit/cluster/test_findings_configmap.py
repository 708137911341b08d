"""The ConfigMap: made when there is none, replaced as it was read, and never over another's."""

import base64
import copy
from typing import Any

import pytest

from webhook.cluster.rest import RefusedError
from webhook.cluster.saved_findings import FindingsConfigMap, unpack
from webhook.store.persister import ChangedError, Row

FOLDER = "/api/v1/namespaces/genguard-system/configmaps"
PATH = f"{FOLDER}/genguard-findings"


class ConfigMaps:
    """An API server with one ConfigMap at most."""

    def __init__(self) -> None:
        self.found: dict[str, Any] | None = None
        self.version = 0
        self.calls: list[str] = []
        self.trouble: list[Exception] = []

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        self.calls.append(method)
        if self.trouble:
            raise self.trouble.pop(0)
        assert path == (FOLDER if method == "POST" else PATH)
        if method == "POST":
            if self.found is not None:
                raise RefusedError(409, "already exists")
            return self.store(body)
        if self.found is None:
            raise RefusedError(404, "not found")
        if method == "GET":
            return copy.deepcopy(self.found)
        assert method == "PUT"
        if body["metadata"].get("resourceVersion") != self.found["metadata"]["resourceVersion"]:
            raise RefusedError(409, "changed meanwhile")
        return self.store(body)

    def store(self, body: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        self.found = copy.deepcopy(body)
        self.found["metadata"]["resourceVersion"] = f"{self.version}"
        return copy.deepcopy(self.found)

    @property
    def data(self) -> bytes:
        assert self.found is not None
        return base64.b64decode(self.found["binaryData"]["findings"])

    @property
    def rows(self) -> tuple[Row, ...]:
        return unpack(self.data)


def place(api: ConfigMaps) -> FindingsConfigMap:
    return FindingsConfigMap(api, "genguard-system", "genguard-findings")


ONE, TWO = (("a", b"1"),), (("a", b"1"), ("b", b"2"))


async def test_of_two_writers_the_later_one_is_refused():
    api = ConfigMaps()
    mine, other = place(api), place(api)
    await mine.load()
    await other.load()
    await other.save(ONE, ONE)
    with pytest.raises(ChangedError):
        await mine.save(TWO, TWO)
    assert await mine.load() == ONE
    await mine.save(TWO, TWO)
    assert api.rows == TWO
