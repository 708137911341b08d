"""The manifests that somebody asks for in a scenario, without a cluster: nothing is sent."""

import copy
import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from genguard.patch.merge import merge_patch
from genguard.testing.patches import json_patch
from tests.controlplane.plane import ControlPlane
from tests.scenarios.catalogue import Scenario
from tests.scenarios.scene import Json, Scene, Stored

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
    """What comes now needs a cluster."""


class AskedObject(Stored):
    """Takes writes into a manifest of whoever writes."""

    def __init__(self, collection: str, body: Json, user: str) -> None:
        self.collection = collection
        self.path = f"{collection}/{body['metadata']['name']}"
        self.manifests: list[tuple[str, Json]] = [(user, copy.deepcopy(body))]
        self._object = copy.deepcopy(body)
        self._object["metadata"] |= {"generation": 1, "uid": "1"}
        self._left_alone = {}  # everybody does what he does

    def get(self) -> Json:
        return copy.deepcopy(self._object)

    def patch(self, user: str, body: Any, subresource: str = "", **_: Any) -> Json:
        change = json_patch if isinstance(body, list) else merge_patch
        return self._take(user, change(self.get(), body), subresource)

    def strategic(self, user: str, body: Json) -> Json:
        return self.patch(user, body)

    def put(self, user: str, change: Callable[[Json], object], subresource: str = "") -> Json:
        found = self.get()
        change(found)
        return self._take(user, found, subresource)

    def wait_for(self, holds: object) -> None:
        pass

    def wait_until_gone(self) -> None:
        raise EndedError

    def _as(self, user: str) -> Any:
        raise EndedError

    def _take(self, user: str, made: Json, subresource: str) -> Json:
        if subresource:
            return made
        self._object = made
        asked = self.get()
        if not self.collection.endswith(_WITHOUT_SUBRESOURCE):
            asked.pop("status", None)
        for name in ("uid", "generation"):
            asked["metadata"].pop(name, None)
        if user not in {one for one, _ in self.manifests[1:]}:
            self.manifests.append((user, asked))
        return self.get()


class AskedScene(Scene):
    """Keeps what is asked for."""

    def __init__(self) -> None:
        self.namespace = "asked"
        self.objects: list[AskedObject] = []
        self._ticks = itertools.count(1)
        self._makers = {}

    @property
    def plane(self) -> ControlPlane:  # type: ignore[override]
        raise EndedError

    def create(self, collection: str, body: Json, user: str = "deployer", **_: Any) -> Stored:
        found = AskedObject(collection, body, user)
        self.objects.append(found)
        return found

    def kubectl(self, *args: str) -> None:
        pass

    def pause(self, seconds: float) -> None:
        pass


def asked_in(played: Scenario) -> Iterator[Asked]:
    """Yield what is asked for each object of a scenario: its creation, and later changes."""
    scene = AskedScene()
    try:
        for act in (played.before, played.act):
            if act is not None:
                act(scene)
    except (EndedError, KeyError, StopIteration):
        pass  # it waits for what only a cluster does
    for one in scene.objects:
        *group, version, plural = one.collection.split("/")
        typed = {"apiVersion": "/".join((*group, version)), "kind": _KINDS.get(plural, plural)}
        for number, (user, manifest) in enumerate(one.manifests[:_MOST]):
            yield Asked(user, {**typed, **manifest}, is_change=number > 0)
