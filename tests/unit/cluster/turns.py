"""An API server in memory, and callers that take turns: each call is one step, in any order."""

import base64
import types
from collections.abc import Coroutine, Generator, Mapping
from copy import deepcopy
from datetime import datetime
from typing import Any

from webhook.cluster.rest import RefusedError
from webhook.manifest.documents import path_of
from webhook.manifest.rendering import REGISTRATIONS, registration_of, secret_of

NAMESPACE = "genguard-system"
SECRET = path_of(secret_of(NAMESPACE))


@types.coroutine
def _turn() -> Generator[None, None, None]:
    """Let others call first."""
    yield


class Objects:
    """A Calls: the Secret and three registrations, with resourceVersions, and what they were."""

    def __init__(self, files: Mapping[str, bytes], bundle: bytes, at: datetime) -> None:
        self.at = at
        self.versions: dict[str, list[tuple[datetime, dict[str, Any]]]] = {}
        self._version = 0
        secret = secret_of(NAMESPACE) | {"data": _encoded(files)}
        self._store(SECRET, secret, 0)
        for kind, name in REGISTRATIONS:
            self._store(path_of(registration_of(kind, name)), registration_of(kind, name), 0)
        self.trust(bundle)

    async def call(
        self, method: str, path: str, body: Any = None, *, params: dict[str, str] | None = None
    ) -> Any:
        await _turn()
        if method == "GET":
            return self.now(path)
        assert method == "PUT"
        live = self.now(path)
        if body["metadata"]["resourceVersion"] != live["metadata"]["resourceVersion"]:
            raise RefusedError(409, "the object has been modified")
        changed = body.get("webhooks") != live.get("webhooks")
        self._store(path, deepcopy(body), live["metadata"]["generation"] + changed)
        return self.now(path)

    def now(self, path: str) -> dict[str, Any]:
        if path not in self.versions:
            raise RefusedError(404, f"{path} not found")
        return deepcopy(self.versions[path][-1][1])

    def spoil(self, files: Mapping[str, bytes]) -> None:
        """Somebody else writes the Secret."""
        self._store(SECRET, self.now(SECRET) | {"data": _encoded(files)}, 0)

    def trust(self, bundle: bytes) -> None:
        """Somebody else writes the registrations."""
        for path in self.versions.keys() - {SECRET}:
            live = self.now(path)
            webhook = {"name": "one.example.org", "clientConfig": {"caBundle": _text(bundle)}}
            generation = live["metadata"]["generation"] + 1
            self._store(path, live | {"webhooks": [webhook]}, generation)

    @property
    def files(self) -> dict[str, bytes]:
        found = self.now(SECRET)["data"]
        return {name: base64.b64decode(value) for name, value in found.items()}

    def bundles(self, since: datetime) -> set[bytes]:
        """Every bundle by which an API server may go that is no older than this."""
        found: set[bytes] = set()
        for path, versions in self.versions.items():
            if path != SECRET:
                last = max(i for i, (at, _) in enumerate(versions) if at <= since or i == 0)
                for _, one in versions[last:]:
                    if "webhooks" in one:
                        found.add(_bundle(one))
        return found

    def _store(self, path: str, body: dict[str, Any], generation: int) -> None:
        self._version += 1
        metadata = {"uid": path, "resourceVersion": f"{self._version}", "generation": generation}
        body["metadata"] = body["metadata"] | metadata
        self.versions.setdefault(path, []).append((self.at, body))


class Caller:
    """One who calls again and again, a call at each turn."""

    def __init__(self, begin: Any) -> None:
        self._begin = begin
        self._running: Coroutine[None, None, Any] | None = None
        self.last: Any = None

    def turn(self) -> None:
        """Go on to the next call."""
        if self._running is None:
            self._running = self._begin()
        try:
            self._running.send(None)
        except StopIteration as done:
            self._running, self.last = None, done.value

    def round(self) -> Any:
        """Go on to the end; what it gives."""
        self.turn()
        while self._running is not None:
            self.turn()
        return self.last

    def end(self) -> None:
        if self._running is not None:
            self._running.close()
            self._running = None


def _bundle(registration: Mapping[str, Any]) -> bytes:
    return base64.b64decode(registration["webhooks"][0]["clientConfig"]["caBundle"])


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _encoded(files: Mapping[str, bytes]) -> dict[str, str]:
    return {name: _text(content) for name, content in files.items()}
