"""Reads the versions of CustomResourceDefinitions; a field of the wrong type counts as absent.

Fields of a schema are looked up by name: a schema is never walked through, however deep it is.
Source: apiextensions-apiserver pkg/apis/apiextensions/v1/types.go, types_jsonschema.go.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from genguard.objects.fields import items, mapping, text

DEFINITION: Final = "CustomResourceDefinition"
API_VERSION: Final = "apiextensions.k8s.io/v1"
"""The only one that is served since Kubernetes 1.22."""
PRESERVES: Final = "x-kubernetes-preserve-unknown-fields"


@dataclass(frozen=True, slots=True)
class Schema:
    """A part of a schema, and its path inside the definition."""

    path: str
    body: Mapping[str, Any]

    def field(self, name: str) -> "Schema | None":
        """Return the schema of one of its properties; None when it is not specified."""
        found = mapping(self.body.get("properties")).get(name)
        return Schema(f"{self.path}.properties.{name}", found) if isinstance(found, dict) else None

    @property
    def items(self) -> "Schema | None":
        """The schema of the items of a list; None when it is not specified."""
        found = self.body.get("items")
        return Schema(f"{self.path}.items", found) if isinstance(found, dict) else None

    @property
    def is_open(self) -> bool:
        """Whether fields that it does not specify are stored instead of dropped.

        additionalProperties takes any name as well: the status is a map.
        """
        return self.body.get(PRESERVES) is True or self.body.get("additionalProperties") not in (
            None,
            False,
        )


@dataclass(frozen=True, slots=True)
class DefinedVersion:
    """One served version of a definition; `index` is its position in spec.versions."""

    definition: str
    """The name of the CustomResourceDefinition."""
    index: int
    body: Mapping[str, Any]

    @property
    def name(self) -> str:
        """`v1`."""
        return text(self.body.get("name"))

    @property
    def has_subresource(self) -> bool:
        """Whether status is a subresource; the API server reads a null as absent."""
        return mapping(self.body.get("subresources")).get("status") is not None

    @property
    def schema(self) -> Schema:
        """The schema of the whole object."""
        body = mapping(mapping(self.body.get("schema")).get("openAPIV3Schema"))
        return Schema(self.field("schema.openAPIV3Schema"), body)

    @property
    def status(self) -> Schema | None:
        """The schema of status; None when it is not specified."""
        return self.schema.field("status")

    @property
    def conditions(self) -> Schema | None:
        """The schema of status.conditions, if it is a list; None when it is not specified."""
        status = self.status
        found = None if status is None else status.field("conditions")
        return None if found is None or found.body.get("type") != "array" else found

    @property
    def condition(self) -> Schema | None:
        """The schema of a condition in status.conditions; None when it is not specified."""
        return None if self.conditions is None else self.conditions.items

    def field(self, path: str) -> str:
        """Return the path of one of its fields inside the definition."""
        return f"spec.versions[{self.index}].{path}"


def read_versions(documents: Iterable[Any]) -> Iterator[DefinedVersion]:
    """Yield every served version of the CustomResourceDefinitions among decoded documents."""
    for document in documents:
        if not is_definition(document):
            continue
        name = text(mapping(document.get("metadata")).get("name"))
        for index, body in enumerate(items(mapping(document.get("spec")).get("versions"))):
            if mapping(body).get("served") is True:
                yield DefinedVersion(name, index, body)


def is_definition(document: Any) -> bool:
    """Whether a decoded document is a CustomResourceDefinition of the version that is read here.

    The items of a list need not say their version.
    """
    found = mapping(document)
    return found.get("kind") == DEFINITION and found.get("apiVersion") in (None, API_VERSION)
