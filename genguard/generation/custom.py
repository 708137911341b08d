"""Custom resources: which of them have a status subresource, and the strategy that follows.

Source: apiextensions-apiserver pkg/registry/customresource/strategy.go. The strategy is built for
each CRD version, so the answer belongs to (group, version, resource).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from genguard.generation.flipped_conditions import condition_fault
from genguard.generation.strategy import CUSTOM, Strategy, SubresourceRule


class BadDefinitionError(ValueError):
    """A CustomResourceDefinition that cannot be read; the message names the field."""


class StatusSubresource(StrEnum):
    """Whether a custom resource version declares `subresources.status`."""

    PRESENT = "present"
    ABSENT = "absent"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CustomResource:
    """One version of one CustomResourceDefinition."""

    group: str
    version: str
    resource: str
    kind: str
    status: StatusSubresource
    condition_fault: str = ""
    """Why its schema may refuse the conditions of genguard/generation/flipped_conditions.py."""


class CustomResources:
    """The known custom resources, by (group, version, resource). Immutable."""

    def __init__(self, known: Iterable[CustomResource] = ()) -> None:
        self._known: Final = {
            (resource.group, resource.version, resource.resource): resource for resource in known
        }
        self._strategies: Final = {
            key: (custom.status, custom_strategy(custom)) for key, custom in self._known.items()
        }
        self._names: Final = frozenset((group, plural) for group, _, plural in self._strategies)

    def __len__(self) -> int:
        return len(self._strategies)

    def has(self, group: str, resource: str) -> bool:
        """Whether any version of the resource is known."""
        return (group, resource) in self._names

    def versions(self, group: str, name: str) -> tuple[CustomResource, ...]:
        """Every known version of a resource by its plural name or its kind."""
        return tuple(
            custom
            for custom in self._known.values()
            if custom.group == group and name in (custom.resource, custom.kind)
        )

    def find(self, group: str, version: str, resource: str) -> tuple[StatusSubresource, Strategy]:
        """The strategy of a custom resource; UNKNOWN for one that nobody has described."""
        known = self._strategies.get((group, version, resource))
        if known is not None:
            return known
        unknown = CustomResource(group, version, resource, "", StatusSubresource.UNKNOWN)
        return StatusSubresource.UNKNOWN, custom_strategy(unknown)


_METADATA: Final = frozenset({"metadata"})
_METADATA_AND_STATUS: Final = frozenset({"metadata", "status"})
_SUBRESOURCES: Final = {"status": SubresourceRule.KEEP, "scale": SubresourceRule.SCALE}


def custom_strategy(resource: CustomResource) -> Strategy:
    """PrepareForCreate and PrepareForUpdate of a custom resource version.

    Every top-level field but metadata counts, status too where it is no subresource
    (customresource/strategy.go:copyNonMetadata). Where that is unknown the strategy leaves status
    out, and the caller says so when status is what changed.
    """
    keeps_status_apart = resource.status is not StatusSubresource.ABSENT
    excluded = _METADATA_AND_STATUS if keeps_status_apart else _METADATA
    strategy = replace(CUSTOM, subresources=_SUBRESOURCES, excluded=excluded)
    return replace(strategy, group=resource.group, resource=resource.resource, kind=resource.kind)


def from_definition(definition: Mapping[str, Any]) -> tuple[CustomResource, ...]:
    """Every version of one CustomResourceDefinition (apiextensions.k8s.io/v1), decoded.

    Raises BadDefinitionError when a needed field is missing or of the wrong type.
    """
    name = _text(definition, "metadata.name")
    group, plural = _text(definition, "spec.group"), _text(definition, "spec.names.plural")
    kind = _text(definition, "spec.names.kind")
    versions = _walk(definition, "spec.versions")
    if not isinstance(versions, list):
        raise BadDefinitionError(f"CustomResourceDefinition {name}: spec.versions must be a list")
    found = []
    for index, version in enumerate(versions):
        if not isinstance(version, dict) or not isinstance(version.get("name"), str):
            raise BadDefinitionError(
                f"CustomResourceDefinition {name}: spec.versions[{index}].name is missing"
            )
        subresources = version.get("subresources") or {}
        # `status: {}` declares it; the API server reads a null as absent.
        has_status = isinstance(subresources, dict) and subresources.get("status") is not None
        found.append(
            CustomResource(
                group,
                version["name"],
                plural,
                kind,
                StatusSubresource.PRESENT if has_status else StatusSubresource.ABSENT,
                condition_fault(_walk(version, "schema.openAPIV3Schema")),
            )
        )
    return tuple(found)


def _walk(definition: Any, path: str) -> Any:
    for key in path.split("."):
        definition = definition.get(key) if isinstance(definition, Mapping) else None
    return definition


def _text(definition: Mapping[str, Any], path: str) -> str:
    value = _walk(definition, path)
    if not isinstance(value, str) or not value:
        raise BadDefinitionError(f"CustomResourceDefinition: {path} is missing or not a string")
    return value
