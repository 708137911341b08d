"""What a scenario acts with: one namespace of a real control plane, and users who write in it."""

import copy
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from tests.controlplane.client import STRATEGIC_MERGE_PATCH, ApiError, Client, wait_until
from tests.controlplane.plane import ControlPlane
from tests.controlplane.webhook_listener import Patch

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Hook:
    """Another webhook of the cluster, called between genguard's two mutating registrations.

    `only` names the one registration that is guilty or not by `patch`; `settings` replace fields
    of its webhook, as reinvocationPolicy. It is registered so many seconds `later` than the others.
    """

    name: str
    patch: Callable[[Mapping[str, Any]], Patch]
    resources: Sequence[str]
    settings: Mapping[str, Any] = field(default_factory=dict)
    later: float = 0.0


@dataclass(frozen=True, slots=True)
class Policy:
    """A MutatingAdmissionPolicy, bound in the namespace of the scenario.

    `condition` is its one matchCondition, `mutation` as the API has it.
    """

    name: str
    resources: Sequence[str]
    condition: str
    mutation: Json


class Stored:
    """One object in the cluster, as a user or a controller handles it.

    A user is a name, or `name@pod`: what the token of a service account says of its process.
    `left_alone` are the fields, as RFC 6901, that a user does not write any more: without any,
    objects that somebody else creates or deletes.
    """

    def __init__(
        self,
        plane: ControlPlane,
        collection: str,
        name: str,
        left_alone: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        self._plane = plane
        self.path = f"{collection}/{name}"
        self._left_alone = left_alone

    def get(self) -> Json:
        found: Json = self._plane.client.get(self.path).body
        return found

    @property
    def generation(self) -> int:
        return int(self.get()["metadata"]["generation"])

    def patch(self, user: str, body: Json, subresource: str = "", **params: Any) -> Json:
        """A merge patch, or what else the client makes of a mapping."""
        if self.is_left_by(user):
            return {}
        body = without(body, self._left_alone.get(user, ()))
        if not body:
            return self.get()
        at = f"{self.path}/{subresource}" if subresource else self.path
        made: Json = self._as(user).patch(at, body, params=params or None).body
        return made

    def spec(self, user: str, **fields: Any) -> Json:
        return self.patch(user, {"spec": fields})

    def strategic(self, user: str, body: Json) -> Json:
        """A strategic merge patch: items of a list by their names."""
        body = without(body, self._left_alone.get(user, ()))
        if not body:
            return self.get()
        made: Json = self._as(user).patch(self.path, body, content_type=STRATEGIC_MERGE_PATCH).body
        return made

    def status(self, user: str, **fields: Any) -> Json:
        """A PATCH of some fields of the status."""
        return self.patch(user, {"status": fields}, "status")

    def put_status(self, user: str, change: Callable[[Json], object]) -> Json:
        """Read, change the status in place, PUT; again after a conflict, as controllers do."""
        return self.put(user, lambda found: change(found.setdefault("status", {})), "status")

    def put(self, user: str, change: Callable[[Json], object], subresource: str = "") -> Json:
        at = f"{self.path}/{subresource}" if subresource else self.path
        while True:
            found = self.get()
            before = copy.deepcopy(found)
            change(found)
            for pointer in self._left_alone.get(user, ()):
                keep(pointer, before, found)
            if found == before and user in self._left_alone:
                return found
            try:
                made: Json = self._as(user).put(at, found).body
            except ApiError as error:
                if error.status != 409:
                    raise
            else:
                return made

    def is_left_by(self, user: str) -> bool:
        """Whether a user leaves the whole object to others."""
        return user in self._left_alone and not self._left_alone[user]

    def delete(self, user: str) -> None:
        """It may be gone only where somebody leaves it to others."""
        if not self.is_left_by(user):
            options = {"propagationPolicy": "Background"}
            self._as(user).delete(self.path, options, check=not self._left_alone)

    def wait_for(self, holds: Callable[[Json], object]) -> None:
        wait_until(lambda: holds(self.get()), what=f"a state of {self.path}")

    def wait_until_gone(self) -> None:
        wait_until(self.is_gone, what=f"{self.path} gone")

    def is_gone(self) -> bool:
        """Whether there is no such object."""
        try:
            self.get()
        except ApiError as error:
            return error.status == 404
        return False

    def _as(self, user: str) -> Client:
        name, _, pod = user.partition("@")
        return self._plane.client.as_user(name, ["system:masters"], pod)


class Scene:
    """The namespace of one scenario."""

    def __init__(
        self,
        plane: ControlPlane,
        namespace: str,
        left_alone: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        self.plane, self.namespace, self._left_alone = plane, namespace, left_alone
        self._ticks = itertools.count(1)
        self._makers: dict[str, str] = {}

    def create(self, collection: str, body: Json, user: str = "deployer", **params: Any) -> Stored:
        """`collection` is a path below the namespace's: `apps/v1/deployments`, `v1/pods`."""
        at = self.collection(collection)
        if "name" in body["metadata"] and self._left_alone:
            wanted = self._stored(at, body["metadata"]["name"])
            if self._rests(user, wanted):
                return wanted
        client = self.plane.client.as_user(user, ["system:masters"])
        made = client.post(at, body, params=params or None).body
        stored = self._stored(at, made["metadata"]["name"])
        self._makers[stored.path] = user
        return stored

    def _rests(self, user: str, wanted: Stored) -> bool:
        """Whether a user does not make an object: it is there, or is left to who unmakes it."""
        return (wanted.path in self._makers and wanted.is_left_by(user)) or not wanted.is_gone()

    def stored(self, collection: str, name: str) -> Stored:
        """An object that is there."""
        return self._stored(self.collection(collection), name)

    def make_way(self, user: str, before: Stored | None) -> None:
        """Delete what is in the way, and wait until it is gone; what is its own is not."""
        if before and not before.is_left_by(user) and self._makers.get(before.path) != user:
            before.delete(user)
            before.wait_until_gone()

    def delete_all(self, collection: str, user: str) -> None:
        """Delete one object after the other, those aside that are being deleted."""
        at = self.collection(collection)
        for found in self.plane.client.get(at).body["items"]:
            if "deletionTimestamp" not in found["metadata"]:
                self._stored(at, found["metadata"]["name"]).delete(user)

    def wait_until_none(self, collection: str) -> None:
        at = self.collection(collection)
        wait_until(lambda: not self.plane.client.get(at).body["items"], what=f"no {collection}")

    def collection(self, collection: str) -> str:
        *group, version, plural = collection.split("/")
        root = f"/apis/{group[0]}" if group else "/api"
        return f"{root}/{version}/namespaces/{self.namespace}/{plural}"

    def widget(self, name: str = "one", **spec: Any) -> Stored:
        return self._custom("widgets", "Widget", name, spec)

    def lens(self, version: str, name: str = "one", **spec: Any) -> Stored:
        """An object that is served in two versions."""
        body = {
            "apiVersion": f"example.org/{version}",
            "kind": "Lens",
            "metadata": {"name": name},
            "spec": spec or {"size": 1},
        }
        return self.create(f"example.org/{version}/lenses", body)

    def gauge(self, name: str = "one", **spec: Any) -> Stored:
        return self._custom("gauges", "Gauge", name, spec)

    def node(self) -> Stored:
        """A node without a machine, with the name of the namespace: whoever asks takes it away."""
        client = self.plane.client.as_user("deployer", ["system:masters"])
        client.post("/api/v1/nodes", {"metadata": {"name": self.namespace}})
        return self._stored("/api/v1/nodes", self.namespace)

    def child_of(self, parent: Stored) -> Stored:
        """A gauge that a widget owns."""
        above = parent.get()
        owner = {"apiVersion": "example.org/v1", "kind": "Widget", "controller": True} | {
            key: above["metadata"][key] for key in ("name", "uid")
        }
        body = {
            "apiVersion": "example.org/v1",
            "kind": "Gauge",
            "metadata": {"name": "child", "ownerReferences": [owner]},
            "spec": {"size": 1},
        }
        return self.create("example.org/v1/gauges", body)

    def kubectl(self, *args: str) -> None:
        self.plane.kubectl(*args, f"--namespace={self.namespace}")

    def tick(self) -> int:
        """A number that was not there before."""
        return next(self._ticks)

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    def _stored(self, collection: str, name: str) -> Stored:
        return Stored(self.plane, collection, name, self._left_alone)

    def _custom(self, plural: str, kind: str, name: str, spec: Json) -> Stored:
        body = {
            "apiVersion": "example.org/v1",
            "kind": kind,
            "metadata": {"name": name},
            "spec": spec or {"size": 1},
        }
        return self.create(f"example.org/v1/{plural}", body)


def condition(kind: str, status: str, **fields: Any) -> Json:
    """One entry of status.conditions."""
    return {"type": kind, "status": status, "reason": "Because", **fields}


def set_condition(status: Json, new: Json) -> None:
    """Replaces the condition of this type and leaves the others, as meta.SetStatusCondition."""
    others = [one for one in status.get("conditions", ()) if one["type"] != new["type"]]
    status["conditions"] = [*others, new]


def set_taint(node: Json, key: str, *, is_there: bool) -> None:
    """Puts a taint before the others, or takes it away."""
    others = [one for one in node["spec"].get("taints", ()) if one["key"] != key]
    node["spec"]["taints"] = [{"key": key, "effect": "NoSchedule"}] * is_there + others


def without(body: Json, pointers: Sequence[str]) -> Json:
    """A patch without these fields, and without what holds nothing else; a list goes whole."""
    made = copy.deepcopy(body)
    for pointer in pointers:
        _drop(made, _names(pointer))
    return made


def _drop(value: Json, names: Sequence[str]) -> None:
    name, *below = names
    inner = value.get(name)
    if below and isinstance(inner, dict):
        _drop(inner, below)
        if inner:
            return
    value.pop(name, None)


def keep(pointer: str, before: Json, after: Json) -> None:
    """Set a field as it was before; of a list its first field outside it."""
    *above, last = _names(pointer)
    for name in above:
        old, new = before.get(name), after.get(name)
        if not isinstance(old, dict) or not isinstance(new, dict):
            last = name
            break
        before, after = old, new
    if last in before:
        after[last] = copy.deepcopy(before[last])
    else:
        after.pop(last, None)


def _names(pointer: str) -> list[str]:
    return [one.replace("~1", "/").replace("~0", "~") for one in pointer[1:].split("/")]
