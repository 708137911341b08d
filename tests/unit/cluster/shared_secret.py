"""An API server in memory that has a Secret and three registrations."""

import base64
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from webhook.cluster.rest import RefusedError
from webhook.manifest.documents import path_of
from webhook.manifest.rendering import REGISTRATIONS, registration_of, secret_of

NAMESPACE = "genguard-system"
SECRET = path_of(secret_of(NAMESPACE))


class Objects:
    """A Calls: the Secret and three registrations, with resourceVersions; `puts` are counted."""

    def __init__(self, files: Mapping[str, bytes], bundle: bytes) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.puts: list[str] = []
        self._version = 0
        secret = secret_of(NAMESPACE) | {"data": _encoded(files)}
        self._store(SECRET, secret, 0)
        for kind, name in REGISTRATIONS:
            self._store(path_of(registration_of(kind, name)), registration_of(kind, name), 0)
        self.trust(bundle)

    async def call(
        self, method: str, path: str, body: Any = None, *, params: dict[str, str] | None = None
    ) -> Any:
        if method == "GET":
            return self.now(path)
        assert method == "PUT"
        live = self.now(path)
        if body["metadata"]["resourceVersion"] != live["metadata"]["resourceVersion"]:
            raise RefusedError(409, "the object has been modified")
        changed = body.get("webhooks") != live.get("webhooks")
        self.puts.append(path)
        self._store(path, deepcopy(body), live["metadata"]["generation"] + changed)
        return self.now(path)

    def now(self, path: str) -> dict[str, Any]:
        if path not in self.objects:
            raise RefusedError(404, f"{path} not found")
        return deepcopy(self.objects[path])

    def spoil(self, files: Mapping[str, bytes]) -> None:
        """Somebody else writes the Secret."""
        self._store(SECRET, self.now(SECRET) | {"data": _encoded(files)}, 0)

    def trust(self, bundle: bytes) -> None:
        """Somebody else writes the registrations."""
        for path in self.objects.keys() - {SECRET}:
            live = self.now(path)
            webhook = {"name": "one.example.org", "clientConfig": {"caBundle": _text(bundle)}}
            generation = live["metadata"]["generation"] + 1
            self._store(path, live | {"webhooks": [webhook]}, generation)

    @property
    def files(self) -> dict[str, bytes]:
        found = self.now(SECRET)["data"]
        return {name: base64.b64decode(value) for name, value in found.items()}

    @property
    def bundles(self) -> set[bytes]:
        """The caBundles of all registrations."""
        return {_bundle(self.now(path)) for path in self.objects.keys() - {SECRET}}

    def _store(self, path: str, body: dict[str, Any], generation: int) -> None:
        self._version += 1
        metadata = {"uid": path, "resourceVersion": f"{self._version}", "generation": generation}
        body["metadata"] = body["metadata"] | metadata
        self.objects[path] = body


def _bundle(registration: Mapping[str, Any]) -> bytes:
    return base64.b64decode(registration["webhooks"][0]["clientConfig"]["caBundle"])


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _encoded(files: Mapping[str, bytes]) -> dict[str, str]:
    return {name: _text(content) for name, content in files.items()}
