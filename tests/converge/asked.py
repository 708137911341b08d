"""The manifests that somebody asks for in a scenario, without a cluster: nothing is sent."""

import copy
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from genguard.testing.patches import json_patch, merge_patch
from tests.scenarios.catalogue import Scenario
from tests.scenarios.scene import Json

_MOST = 3
_WITHOUT_SUBRESOURCE = "gauges"
"""Whoever writes the object asks for its status as well."""
_KINDS = {
    "configmaps": "ConfigMap",
    "cronjobs": "CronJob",
    "deployments": "Deployment",
    "endpointslices": "EndpointSlice",
    "gauges": "Gauge",
    "pods": "Pod",
    "serviceaccounts": "ServiceAccount",
    "widgets": "Widget",
}


class Asked(NamedTuple):
    """A manifest, and who asks for it; `is_change`: the object was created by another one."""

    user: str
    manifest: Json
    is_change: bool


class EndedError(Exception):
    """All that is needed was asked for."""


class AskedObject:
    """Stands for Stored: takes writes into a manifest of whoever writes."""

    def __init__(self, scene: "AskedScene", collection: str, body: Json, user: str) -> None:
        self._scene, self.collection = scene, collection
        self.path = ""
        self.manifests: list[tuple[str, Json]] = [(user, copy.deepcopy(body))]
        self._object = copy.deepcopy(body)
        self._object.setdefault("metadata", {}).setdefault("generation", 1)
        self._object["metadata"].setdefault("uid", "1")

    def get(self) -> Json:
        return copy.deepcopy(self._object)

    @property
    def generation(self) -> int:
        return 1

    def patch(self, user: str, body: Any, subresource: str = "", **_: Any) -> Json:
        if isinstance(body, list):
            self._take(user, json_patch(self._object, body), subresource)
        else:
            self._take(user, merge_patch(self._object, body), subresource)
        return self.get()

    def spec(self, user: str, **fields: Any) -> Json:
        return self.patch(user, {"spec": fields})

    def strategic(self, user: str, body: Json) -> Json:
        return self.patch(user, body)

    def status(self, user: str, **fields: Any) -> Json:
        return self.get()

    def put_status(self, user: str, change: Callable[[Json], object]) -> Json:
        return self.get()

    def put(self, user: str, change: Callable[[Json], object], subresource: str = "") -> Json:
        found = self.get()
        change(found)
        self._take(user, found, subresource)
        return self.get()

    def wait_for(self, holds: object) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        """The rest of a life needs a cluster."""
        raise EndedError

    def _take(self, user: str, made: Json, subresource: str) -> None:
        if subresource:
            return
        self._object = made
        asked = copy.deepcopy(made)
        if not self.collection.endswith(_WITHOUT_SUBRESOURCE):
            asked.pop("status", None)
        for name in ("uid", "generation"):
            asked["metadata"].pop(name, None)
        if user not in {one for one, _ in self.manifests[1:]}:
            self.manifests.append((user, asked))


class AskedScene:
    """Stands for Scene."""

    def __init__(self) -> None:
        self.objects: list[AskedObject] = []
        self.namespace = "asked"
        self._ticks = 0

    def create(self, collection: str, body: Json, user: str = "deployer", **_: Any) -> AskedObject:
        found = AskedObject(self, collection, body, user)
        self.objects.append(found)
        return found

    def widget(self, name: str = "one", **spec: Any) -> AskedObject:
        return self._custom("widgets", "Widget", name, spec)

    def gauge(self, name: str = "one", **spec: Any) -> AskedObject:
        return self._custom("gauges", "Gauge", name, spec)

    def child_of(self, parent: AskedObject) -> AskedObject:
        return self.gauge("child")

    def kubectl(self, *args: str) -> None:
        pass

    def tick(self) -> int:
        self._ticks += 1
        return self._ticks

    def pause(self, seconds: float) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        """The rest of a scenario needs a cluster."""
        raise EndedError

    def _custom(self, plural: str, kind: str, name: str, spec: Json) -> AskedObject:
        body = {
            "apiVersion": "example.org/v1",
            "kind": kind,
            "metadata": {"name": name},
            "spec": spec or {"size": 1},
        }
        return self.create(f"example.org/v1/{plural}", body)


def asked_in(played: Scenario) -> Iterator[Asked]:
    """Yield what is asked for each object of a scenario: its creation, and later changes."""
    scene = AskedScene()
    try:
        for act in (played.before, played.act):
            if act is not None:
                act(scene)  # type: ignore[arg-type]
    except (EndedError, KeyError, StopIteration, IndexError):
        pass  # it waits for what only a cluster does
    for one in scene.objects:
        *group, version, plural = one.collection.split("/")
        typed = {"apiVersion": "/".join((*group, version)), "kind": _KINDS.get(plural, plural)}
        for number, (user, manifest) in enumerate(one.manifests[:_MOST]):
            yield Asked(user, {**typed, **manifest}, is_change=number > 0)
