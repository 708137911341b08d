"""An API server that keeps objects and their resourceVersions, and damage done to them."""

import copy
import json
from collections.abc import Callable
from typing import Any

import jsonpatch
import msgspec
from msgspec.structs import replace

from genguard.detection.damage import Damage, LostValue
from genguard.detection.finding import FoundObject
from genguard.detection.finding_state import FindingState
from webhook.cluster.rest import RefusedError

Change = Callable[[dict[str, Any]], None]


def lost(value: int, writer: str = "deployment-controller") -> Damage:
    """An observedGeneration that a writer sent and that is not stored: the simplest damage."""
    return Damage((LostValue(None, value),), writer)


def deployment(name: str) -> FoundObject:
    return FoundObject("apps", "v1", "deployments", "shop", name, f"uid-of-{name}")


def path_of(thing: FoundObject) -> str:
    return f"/apis/apps/v1/namespaces/{thing.namespace}/{thing.resource}/{thing.name}"


class Api:
    """Objects by path, as JSON.

    on_patch  what a webhook does to an object on its way, after the patch
    trouble   raised by the next calls of a method, one after the other
    """

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.version = 0
        self.calls: list[tuple[str, str]] = []
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.on_patch: Change = lambda _: None
        self.trouble: dict[str, list[Exception]] = {}

    def put(self, thing: FoundObject, **status: Any) -> None:
        """Store an object with this status."""
        self._store(
            path_of(thing),
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": thing.name, "uid": thing.uid, "generation": 3},
                "status": status,
            },
        )

    def touch(self, thing: FoundObject) -> None:
        """Write an object without a change that matters."""
        self._store(path_of(thing), self.objects[path_of(thing)])

    def status(self, thing: FoundObject) -> dict[str, Any]:
        found: dict[str, Any] = self.objects[path_of(thing)]["status"]
        return found

    def count(self, method: str) -> int:
        return sum(one == method for one, _ in self.calls)

    async def read(self, path: str) -> bytes:
        self._begin("GET", path)
        return msgspec.json.encode(self._found(path))

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: dict[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Any:
        if path.endswith("/events"):
            self.events.append((path.split("/")[-2], body))
            return None
        self._begin(method, path)
        assert (method, content_type) == ("PATCH", "application/json-patch+json")
        assert params == {"fieldManager": "genguard"}
        target = path.removesuffix("/status")
        assert target != path, "the main resource is not patched"
        try:
            patched = jsonpatch.apply_patch(self._found(target), body)
        except jsonpatch.JsonPatchTestFailed as error:
            message = "the server rejected our request due to an error in our request"
            raise RefusedError(422, message) from error
        self.on_patch(patched)
        return self._store(target, patched)

    def _begin(self, method: str, path: str) -> None:
        self.calls.append((method, path))
        if self.trouble.get(method):
            raise self.trouble[method].pop(0)

    def _found(self, path: str) -> dict[str, Any]:
        if path not in self.objects:
            raise RefusedError(404, "not found")
        return copy.deepcopy(self.objects[path])

    def _store(self, path: str, stored: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        stored = json.loads(json.dumps(stored))
        stored["metadata"]["resourceVersion"] = f"{self.version}"
        self.objects[path] = stored
        return copy.deepcopy(stored)


class Findings:
    """Damage that is known, and what looks have shown of it."""

    def __init__(self, *damaged: FindingState) -> None:
        self.known = {one.id: one for one in damaged}
        self.restored: dict[str, FindingState] = {}
        self.seen: list[tuple[str, bool]] = []

    def damaged(self):
        yield from self.known.values()
        for one in self.restored.values():
            yield replace(one, damage=None, prevented=one.damage)

    def look(self, where, is_broken, now: float) -> None:
        for finding, damaged in (self.known | self.restored).items():
            if damaged.object == where:
                self.seen.append((finding, is_broken(damaged.damage)))
                left, entered = self.known, self.restored
                if is_broken(damaged.damage):
                    left, entered = entered, left
                left.pop(finding, None)
                entered[finding] = damaged


class Leads:
    """A Leadership that is given and taken by hand."""

    def __init__(self, *, is_leader: bool = True) -> None:
        self.is_leader = is_leader
        self.vacant_since = float("-inf")
