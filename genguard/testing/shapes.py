"""What the fake API server knows of the fields of a kind: names, keys of lists, atomic values.

Built-in kinds have a table that is made of the OpenAPI document of a real API server
(`builtin_kinds.json`, written by tests/library/builtin_kinds.py). Custom resources have the schema
of their CustomResourceDefinition.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Any, Final

import msgspec


class ListType(StrEnum):
    """How a list merges, as x-kubernetes-list-type has it."""

    ATOMIC = "atomic"
    SET = "set"
    MAP = "map"


class BuiltInKinds(msgspec.Struct, frozen=True, rename="camel"):
    """The table of built-in kinds, as builtin_kinds.json has it.

    roots                 the type of a kind: `apps/v1/Deployment`
    types                 the fields of each type, with a code that `parse_code` explains
    creates_on_update     resources that a PUT creates
    needs_resource_version  resources that no update changes without a resourceVersion
    returns_deleted       resources whose DELETE answers with the object, not with a Status
    """

    roots: dict[str, str]
    types: dict[str, dict[str, str]]
    creates_on_update: frozenset[str]
    needs_resource_version: frozenset[str]
    returns_deleted: frozenset[str]


@cache
def load_builtin_kinds() -> BuiltInKinds:
    """Read what is shipped in builtin_kinds.json."""
    folder = resources.files("genguard.testing")
    return msgspec.json.decode(
        folder.joinpath("builtin_kinds.json").read_bytes(), type=BuiltInKinds
    )


@cache
def load_builtin_defaults() -> dict[str, dict[str, Any]]:
    """Read what the API server fills in, by type and field, from builtin_defaults.json."""
    folder = resources.files("genguard.testing")
    text = folder.joinpath("builtin_defaults.json").read_bytes()
    return msgspec.json.decode(text, type=dict[str, dict[str, Any]])


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """A part of a built-in kind.

    list_type  how a list merges
    keys       the fields that tell the items of a list apart, where the list is a map
    patch_key  by what a strategic merge patch joins a list; `.`: by its values, "": it is replaced
    is_atomic  whether a map is written as a whole
    """

    type_name: str = ""
    element: "BuiltIn | None" = None
    list_type: ListType = ListType.ATOMIC
    keys: tuple[str, ...] = ()
    patch_key: str = ""
    is_atomic: bool = False
    is_map: bool = False

    def field(self, name: str) -> "Shape | None":
        """Return what is known of a field; None for one that the kind does not have.

        A field of a struct must be known; a map takes every name.
        """
        if self.is_map:
            return self.element
        known = load_builtin_kinds().types.get(self.type_name)
        if known is None:
            return ANYTHING
        code = known.get(name)
        return None if code is None else parse_code(code)

    def item(self) -> "Shape":
        """Return what is known of an item of a list."""
        return ANYTHING if self.element is None else self.element


@cache
def parse_code(code: str) -> BuiltIn:
    """Read the code of a field in builtin_kinds.json.

    `` a scalar or anything; `T` a struct; `!T` one that is written as a whole; `{}C` a map of C;
    `[]C` a list that is replaced; `[=]C` a set; `[a,b]C` a list by its keys. Behind a bar stands
    the key by which a strategic merge patch joins the list: `[name|name]C`, `[=|.]C`.
    """
    if code.startswith("!"):
        inner = parse_code(code[1:])
        return BuiltIn(inner.type_name, inner.element, is_atomic=True, is_map=inner.is_map)
    if code.startswith("{}"):
        return BuiltIn(element=parse_code(code[2:]), is_map=True)
    if not code.startswith("["):
        return BuiltIn(code)
    inside, _, rest = code[1:].partition("]")
    merged, _, patch_key = inside.partition("|")
    element = parse_code(rest)
    if merged in ("", "="):
        list_type = ListType.SET if merged else ListType.ATOMIC
        return BuiltIn(element=element, list_type=list_type, patch_key=patch_key)
    keys = tuple(merged.split(","))
    return BuiltIn(element=element, list_type=ListType.MAP, keys=keys, patch_key=patch_key)


_OBJECT_FIELDS: Final = {
    "apiVersion": BuiltIn(),
    "kind": BuiltIn(),
    "metadata": BuiltIn("meta/v1.ObjectMeta"),
}


@dataclass(frozen=True, slots=True)
class Declared:
    """A part of a custom resource, as the schema of its version declares it; see BuiltIn."""

    schema: Mapping[str, Any]
    is_object: bool = False
    """It has apiVersion, kind and metadata, which no schema needs to declare."""
    patch_key: str = field(default="", init=False)

    @property
    def keeps_unknown(self) -> bool:
        """Fields that are not declared are stored."""
        return bool(self.schema.get("x-kubernetes-preserve-unknown-fields"))

    @property
    def list_type(self) -> ListType:
        """See BuiltIn."""
        return ListType(self.schema.get("x-kubernetes-list-type", "atomic"))

    @property
    def keys(self) -> tuple[str, ...]:
        """See BuiltIn."""
        return tuple(self.schema.get("x-kubernetes-list-map-keys", ()))

    @property
    def is_atomic(self) -> bool:
        """See BuiltIn."""
        return self.schema.get("x-kubernetes-map-type") == "atomic"

    def field(self, name: str) -> "Shape | None":
        """See BuiltIn."""
        embedded = self.schema.get("x-kubernetes-embedded-resource")
        if (self.is_object or embedded) and name in _OBJECT_FIELDS:
            return _OBJECT_FIELDS[name]
        declared = (self.schema.get("properties") or {}).get(name)
        if isinstance(declared, Mapping):
            return Declared(declared)
        others = self.schema.get("additionalProperties")
        if isinstance(others, Mapping):
            return Declared(others)
        return ANYTHING if others is True or self.keeps_unknown else None

    def item(self) -> "Shape":
        """See BuiltIn."""
        items = self.schema.get("items")
        return Declared(items) if isinstance(items, Mapping) else ANYTHING


Shape = BuiltIn | Declared
"""What is known of one part of an object."""

ANYTHING: Final = Declared({"x-kubernetes-preserve-unknown-fields": True})
"""A part of which nothing is known: every field is kept, lists are replaced."""


def builtin_shape(group: str, version: str, kind: str) -> Shape:
    """Return the shape of a built-in kind; ANYTHING for one that the table does not have."""
    root = load_builtin_kinds().roots.get(f"{group or 'core'}/{version}/{kind}")
    return ANYTHING if root is None else BuiltIn(root)


def fill_builtin_defaults(shape: Shape, value: Any) -> None:
    """Set the fields of a built-in kind that are absent and have a default, in place."""
    if isinstance(value, list):
        item = shape.item()
        for child in value:
            fill_builtin_defaults(item, child)
        return
    if not isinstance(value, dict) or not isinstance(shape, BuiltIn):
        return
    for name, default in load_builtin_defaults().get(shape.type_name, {}).items():
        if name not in value:
            value[name] = copy.deepcopy(default)
    depends = _DEPENDENT_DEFAULTS.get(shape.type_name)
    if depends is not None:
        depends(value)
    for name, child in value.items():
        inner = shape.field(name)
        if inner is not None:
            fill_builtin_defaults(inner, child)


def _fill_rolling_update(strategy: dict[str, Any]) -> None:
    if strategy.get("type") == "RollingUpdate":
        strategy.setdefault("rollingUpdate", {})


def _fill_job(spec: dict[str, Any]) -> None:
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)


def _fill_pull_policy(container: dict[str, Any]) -> None:
    name = str(container.get("image", "")).rpartition("/")[2]
    is_latest = not set(name) & {":", "@"} or name.endswith(":latest")
    container.setdefault("imagePullPolicy", "Always" if is_latest else "IfNotPresent")


def _fill_target_port(port: dict[str, Any]) -> None:
    if "port" in port:
        port.setdefault("targetPort", port["port"])


def _fill_policy_types(spec: dict[str, Any]) -> None:
    if "policyTypes" not in spec:
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


_DEPENDENT_DEFAULTS: Final[dict[str, Callable[[dict[str, Any]], None]]] = {
    "apps/v1.DeploymentStrategy": _fill_rolling_update,
    "apps/v1.DaemonSetUpdateStrategy": _fill_rolling_update,
    "apps/v1.StatefulSetUpdateStrategy": _fill_rolling_update,
    "batch/v1.JobSpec": _fill_job,
    "core/v1.Container": _fill_pull_policy,
    "core/v1.EphemeralContainer": _fill_pull_policy,
    "core/v1.ServicePort": _fill_target_port,
    "networking/v1.NetworkPolicySpec": _fill_policy_types,
}


def drop_unknown(shape: Shape, value: Any, path: str = "") -> list[str]:
    """Remove the fields that a kind does not have, in place; return their paths.

    In built-in kinds a null stands for an absent field, and is removed without being told.
    """
    if isinstance(value, list):
        item = shape.item()
        return [
            unknown
            for index, child in enumerate(value)
            for unknown in drop_unknown(item, child, f"{path}[{index}]")
        ]
    if not isinstance(value, dict):
        return []
    found: list[str] = []
    for name in list(value):
        inner = shape.field(name)
        where = f"{path}.{name}" if path else name
        if inner is None:
            found.append(where)
            del value[name]
        elif value[name] is None and isinstance(inner, BuiltIn):
            del value[name]
        else:
            found += drop_unknown(inner, value[name], where)
    return found
