"""KIND/NAME as kubectl reads it: which served resource a person means."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from webhook.trace.plan import Traced


@dataclass(frozen=True, slots=True)
class Served:
    """One resource as discovery tells of it, in one version."""

    group: str
    version: str
    resource: str
    singular: str
    kind: str
    short_names: tuple[str, ...]
    namespaced: bool
    has_status: bool


class UnknownTargetError(Exception):
    """Not KIND/NAME, or no such kind; the message says what to do."""


def object_path(one: Traced, subresource: str = "") -> str:
    """Where the API server has the object, or a subresource of it."""
    root = f"/apis/{one.group}" if one.group else "/api"
    where = f"/namespaces/{one.namespace}" if one.namespace else ""
    tail = f"/{subresource}" if subresource else ""
    return f"{root}/{one.version}{where}/{one.resource}/{quote(one.name, safe=':')}{tail}"


def split_target(text: str) -> tuple[str, str]:
    """`deployment.apps/web` → `("deployment.apps", "web")`; raises UnknownTargetError."""
    kind, slash, name = text.partition("/")
    if not (kind and slash and name) or "/" in name:
        raise UnknownTargetError(f"{text!r} is not KIND/NAME, such as deployment/web")
    return kind, name


def read_resources(group_version: str, listed: Mapping[str, Any]) -> Iterator[Served]:
    """The resources of one APIResourceList."""
    group, slash, version = group_version.partition("/")
    if not slash:
        group, version = "", group
    names = {one["name"] for one in listed.get("resources") or ()}
    for one in listed.get("resources") or ():
        if "/" not in one["name"]:
            yield Served(
                group=group,
                version=version,
                resource=one["name"],
                singular=one.get("singularName", ""),
                kind=one["kind"],
                short_names=tuple(one.get("shortNames") or ()),
                namespaced=bool(one["namespaced"]),
                has_status=f"{one['name']}/status" in names,
            )


def find(kind: str, served: Iterable[Served]) -> Served:
    """The first that is meant, in the server's order of preference.

    Takes kind, plural, singular and short name, followed by .group or .version.group if need be.
    Raises UnknownTargetError.
    """
    name, _, rest = kind.lower().partition(".")
    known = list(served)
    for of_kind in (_names, _short_names):
        for one in known:
            if name in of_kind(one) and _in_group(one, rest):
                return one
    raise UnknownTargetError(
        f"the server has no kind {kind!r}; kubectl api-resources lists what it has"
    )


def _names(one: Served) -> set[str]:
    return {one.resource, one.singular, one.kind.lower()}


def _short_names(one: Served) -> set[str]:
    return set(one.short_names)


def _in_group(one: Served, rest: str) -> bool:
    versioned = f"{one.version}.{one.group}".rstrip(".")
    return rest.rstrip(".") in {"", one.group, versioned}
