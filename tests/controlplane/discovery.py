"""What an API server serves, parsed from the APIResourceList documents of its discovery API."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ServedResource:
    """One resource in one version; `subresources` maps each name to its verbs."""

    group: str
    version: str
    resource: str
    kind: str
    namespaced: bool
    verbs: frozenset[str]
    subresources: Mapping[str, frozenset[str]]

    @property
    def api_version(self) -> str:
        """As an object writes it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def persisted(self) -> bool:
        """Reviews, bindings and component statuses are answered and forgotten."""
        return {"create", "get", "delete"} <= self.verbs

    def path(
        self, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """The collection, an object in it, or an object's subresource."""
        parts = ["", "apis" if self.group else "api", self.api_version]
        if namespace is not None and self.namespaced:
            parts += ["namespaces", namespace]
        parts += [part for part in (self.resource, name, subresource) if part is not None]
        return "/".join(parts)


def parse_resources(document: Mapping[str, Any]) -> Iterator[ServedResource]:
    """The resources of one APIResourceList, each with its subresources."""
    group, _, version = document["groupVersion"].rpartition("/")
    entries = document["resources"]
    for entry in entries:
        name = entry["name"]
        if "/" in name:
            continue
        prefix = f"{name}/"
        yield ServedResource(
            group=group,
            version=version,
            resource=name,
            kind=entry["kind"],
            namespaced=entry["namespaced"],
            verbs=frozenset(entry["verbs"]),
            subresources={
                other["name"].removeprefix(prefix): frozenset(other["verbs"])
                for other in entries
                if other["name"].startswith(prefix)
            },
        )
