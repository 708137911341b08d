"""What an API server serves, and what of it a person means by KIND/NAME, as with kubectl."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from operator import attrgetter
from typing import Any, Final
from urllib.parse import quote

NO_KIND: Final = "there is no kind"
"""Begins the message that no kind has this name."""
_OFFERED: Final = 3
_LIKE: Final = 0.7
"""How alike a name must be to be offered, from 0 to 1: `depoyment` is 0.95 of `deployment`."""


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
    watchable: bool

    @property
    def of(self) -> tuple[str, str]:
        """Group and resource, whatever the version."""
        return self.group, self.resource

    def path(self, namespace: str) -> str:
        """Where the API server has the collection; "" is every namespace."""
        return collection_path(self.group, self.version, self.resource, namespace)

    def object_path(self, namespace: str, name: str) -> str:
        """Where it has an object; nothing in a name leads elsewhere."""
        return f"{self.path(quote(namespace, safe=''))}/{quote(name, safe='')}"

    def __str__(self) -> str:
        """`deployments.apps`."""
        return resource_name(self.group, self.resource)


def by_name(kinds: Iterable[Served]) -> dict[str, Served]:
    """Return the preferred version of each kind by its name, in the order of discovery."""
    found: dict[str, Served] = {}
    for kind in kinds:
        found.setdefault(str(kind), kind)
    return found


class UnknownTargetError(Exception):
    """Not KIND/NAME, or no such kind; the message says what to do."""


def resource_name(group: str, resource: str) -> str:
    """`deployments.apps`, `pods`: a resource as kubectl names it."""
    return f"{resource}.{group}" if group else resource


def collection_path(group: str, version: str, resource: str, namespace: str) -> str:
    """`/apis/apps/v1/namespaces/shop/deployments`."""
    root = f"/apis/{group}" if group else "/api"
    where = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}/{version}{where}/{resource}"


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
    names = {resource["name"] for resource in listed.get("resources") or ()}
    for resource in listed.get("resources") or ():
        if "/" not in resource["name"]:
            yield Served(
                group=group,
                version=version,
                resource=resource["name"],
                singular=resource.get("singularName", ""),
                kind=resource["kind"],
                short_names=tuple(resource.get("shortNames") or ()),
                namespaced=bool(resource["namespaced"]),
                has_status=f"{resource['name']}/status" in names,
                watchable={"list", "watch"} <= set(resource.get("verbs") or ()),
            )


def find(kind: str, served: Iterable[Served]) -> Served:
    """The first that is meant, in the server's order of preference.

    Takes kind, plural, singular and short name, followed by .group or .version.group if need be.
    Raises UnknownTargetError.
    """
    name, _, rest = kind.lower().partition(".")
    known = list(served)
    for of_kind in (_names, attrgetter("short_names")):
        for resource in known:
            versioned = f"{resource.version}.{resource.group}".rstrip(".")
            if name in of_kind(resource) and rest.rstrip(".") in ("", resource.group, versioned):
                return resource
    close = ", ".join(nearest(kind, known))
    meant = f"did you mean {close}?" if close else "kubectl api-resources lists what it has"
    raise UnknownTargetError(f"{NO_KIND} {kind!r}; {meant}")


def nearest(kind: str, served: Iterable[Served]) -> list[str]:
    """Up to three resources that are called nearly so, the nearest first."""
    name = kind.lower().partition(".")[0]
    named: dict[str, list[Served]] = {}
    for resource in served:
        for each in (*_names(resource), *resource.short_names):
            named.setdefault(each, []).append(resource)
    close = get_close_matches(name, sorted(named), n=_OFFERED, cutoff=_LIKE)
    meant = dict.fromkeys(str(resource) for word in close for resource in named[word])
    return list(meant)[:_OFFERED]


def _names(resource: Served) -> set[str]:
    return {resource.resource, resource.singular, resource.kind.lower()}
