"""The resources that the fake API server serves: built-in kinds and the author's definitions."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from genguard.generation.custom import (
    CustomResource,
    CustomResources,
    custom_strategy,
    from_definition,
)
from genguard.generation.strategy import Strategy
from genguard.generation.table import GenerationTable, Row
from genguard.generation.transition import Engine
from genguard.testing.shapes import Declared, Shape, builtin_shape

VERBS: Final = (
    "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch",
)  # fmt: skip
DEFINITIONS: Final = ("apiextensions.k8s.io", "customresourcedefinitions")
_POSTED: Final = frozenset({"binding", "eviction"})
"""Subresources that are created."""


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where /scale finds its numbers, as JSON paths of a definition: `.spec.replicas`."""

    spec_replicas: str = ".spec.replicas"
    status_replicas: str = ".status.replicas"
    selector: str = ""


@dataclass(frozen=True, slots=True)
class Resource:
    """One version of one resource.

    schema   of a custom resource: openAPIV3Schema of this version
    columns  fields that a fieldSelector may name, beside metadata.name and metadata.namespace
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    strategy: Strategy = field(hash=False)
    shape: Shape = field(hash=False)
    subresources: tuple[str, ...] = ()
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    persisted: bool = True
    schema: Mapping[str, Any] | None = field(default=None, hash=False)
    scale: ScalePaths | None = None
    selectable: tuple[str, ...] = ()
    converted: bool = False
    """A webhook converts between the versions of its definition, and this one is not stored."""

    @property
    def name(self) -> str:
        """As kubectl writes it: `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        """As objects write it: `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def api_path(self) -> tuple[str, str, str]:
        """Its group, version and plural, as in the paths of the API."""
        return self.group, self.version, self.plural

    @property
    def key(self) -> tuple[str, str]:
        """What all versions of a resource have in common: they show the same objects."""
        return self.group, self.plural

    @property
    def is_custom(self) -> bool:
        """It has a CustomResourceDefinition."""
        return self.schema is not None

    @property
    def has_status(self) -> bool:
        """Status is written through /status alone."""
        return "status" in self.subresources

    def discovered(self) -> Iterator[dict[str, Any]]:
        """Yield the entries of an APIResourceList."""
        yield {
            "name": self.plural,
            "singularName": self.singular,
            "namespaced": self.namespaced,
            "kind": self.kind,
            "verbs": list(VERBS) if self.persisted else ["create"],
            **({"shortNames": list(self.short_names)} if self.short_names else {}),
        }
        for name in self.subresources:
            verbs = ["create"] if name in _POSTED else ["get", "patch", "update"]
            kind = {"kind": "Scale", "group": "autoscaling", "version": "v1"}
            other = kind if name == "scale" else {"kind": self.kind}
            yield {
                "name": f"{self.plural}/{name}",
                "singularName": "",
                "namespaced": self.namespaced,
                "verbs": verbs,
                **other,
            }


class Catalogue:
    """Every resource that is served, by group, version and plural name."""

    def __init__(self, table: GenerationTable) -> None:
        """Serve the built-in kinds of one Kubernetes version."""
        self._table: Final = table
        self._custom: Final[dict[str, tuple[CustomResource, ...]]] = {}
        served = [each for row in table.rows if table.serves(row) for each in _built_in(row, table)]
        self._found = {resource.api_path: resource for resource in served}
        self.engine = Engine(table, CustomResources(()))

    @property
    def custom(self) -> tuple[CustomResource, ...]:
        """What the engine knows of custom resources."""
        return tuple(version for versions in self._custom.values() for version in versions)

    def define(self, definition: Mapping[str, Any]) -> None:
        """Serve what a CustomResourceDefinition declares. Raise BadDefinitionError."""
        known = from_definition(definition)
        self._replace(definition["metadata"]["name"], known, _declared(definition, known))

    def forget(self, name: str) -> None:
        """Serve no longer what the definition of this name declares."""
        self._replace(name, (), ())
        self._custom.pop(name, None)

    def _replace(
        self, name: str, known: tuple[CustomResource, ...], declared: Iterable[Resource]
    ) -> None:
        """Serve other resources of a definition, all at once: threads read while it changes."""
        gone = {(old.group, old.version, old.resource) for old in self._custom.get(name, ())}
        kept = {
            api_path: resource for api_path, resource in self._found.items() if api_path not in gone
        }
        self._found = {**kept, **{resource.api_path: resource for resource in declared}}
        self._custom[name] = known
        self.engine = Engine(self._table, CustomResources(self.custom))

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """Return a resource by its group, version and plural."""
        return self._found.get((group, version, plural))

    def named(self, name: str) -> Resource | None:
        """Return the preferred version of a resource as kubectl writes it: `deployments.apps`."""
        plural, _, group = name.partition(".")
        return next((resource for resource in self if resource.key == (group, plural)), None)

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        """Return the resource of an object by its apiVersion and kind."""
        wanted = api_version, kind
        found = (resource for resource in self if (resource.api_version, resource.kind) == wanted)
        return next(found, None)

    def groups(self) -> dict[str, list[str]]:
        """Return the versions of each group, the preferred one first."""
        found: dict[str, list[str]] = {}
        for resource in self:
            versions = found.setdefault(resource.group, [])
            if resource.version not in versions:
                versions.append(resource.version)
        return {group: sorted(versions, key=_rank) for group, versions in found.items()}

    def __iter__(self) -> Iterator[Resource]:
        """Yield every resource in each version, the preferred version first."""
        served = self._found.values()
        return iter(sorted(served, key=lambda resource: (resource.key, _rank(resource.version))))


def _rank(version: str) -> tuple[int, list[int]]:
    """Order versions as the API does: v2, v1, v1beta2, v1beta1, v1alpha1."""
    stage = 2 if "alpha" in version else int("beta" in version)
    numbers = version.removeprefix("v").replace("beta", " ").replace("alpha", " ").split()
    return stage, [-int(number) if number.isdecimal() else 0 for number in numbers]


def _built_in(row: Row, table: GenerationTable) -> Iterator[Resource]:
    strategy = table.find(row.group, row.resource)
    if strategy is None:
        return
    for version in row.versions:
        yield Resource(
            row.group,
            version,
            row.resource,
            row.kind,
            row.namespaced,
            strategy,
            builtin_shape(row.group, version, row.kind),
            tuple(sorted(row.subresources)),
            row.kind.lower(),
            f"{row.kind}List",
            row.short_names,
            row.persisted,
            scale=ScalePaths() if "scale" in row.subresources else None,
        )


def _declared(definition: Mapping[str, Any], known: Iterable[CustomResource]) -> Iterator[Resource]:
    spec = definition["spec"]
    names = spec["names"]
    converts = (spec.get("conversion") or {}).get("strategy") == "Webhook"
    for version, custom in zip(spec["versions"], known, strict=True):
        if version.get("served") is False:
            continue
        subresources = version.get("subresources") or {}
        schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        scale = subresources.get("scale")
        yield Resource(
            custom.group,
            custom.version,
            custom.resource,
            custom.kind,
            spec.get("scope") != "Cluster",
            custom_strategy(custom),
            Declared(schema, is_object=True),
            tuple(sorted(name for name, value in subresources.items() if value is not None)),
            names.get("singular") or custom.kind.lower(),
            names.get("listKind") or f"{custom.kind}List",
            tuple(names.get("shortNames") or ()),
            schema=schema,
            scale=None
            if not scale
            else ScalePaths(
                scale.get("specReplicasPath", ""),
                scale.get("statusReplicasPath", ""),
                scale.get("labelSelectorPath", ""),
            ),
            selectable=tuple(
                each["jsonPath"].removeprefix(".") for each in version.get("selectableFields", ())
            ),
            converted=converts and not version.get("storage"),
        )
