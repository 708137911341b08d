"""Finds the kind to explain by any of its names: kind, plural, singular or short name."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from genguard.explain.explanation import (
    Explanation,
    Version,
    describe_health_rule,
    explain_row,
    explain_version,
    read_versions,
)
from genguard.generation.custom import StatusSubresource
from genguard.generation.table import GenerationTable, Row
from genguard.objects.served import Served, find, nearest
from genguard.status.health_rules import HealthRules


class Catalogue:
    """The kinds of one API server version, and the custom resources of definitions."""

    def __init__(
        self,
        table: GenerationTable,
        definitions: Iterable[Mapping[str, Any]],
        rules: HealthRules | None = None,
    ) -> None:
        """`rules` judge custom resources, in CEL. Raises BadDefinitionError."""
        self._rules: Final = HealthRules() if rules is None else rules
        self._table: Final = table
        self._found: Final[dict[Served, Row | Version]] = {}
        for row in table.rows:
            for name in row.versions:
                self._found[_served_row(row, name)] = row
        self._siblings: Final[dict[Served, tuple[Version, ...]]] = {}
        for definition in definitions:
            versions = read_versions(definition)
            for version in versions:
                served = _served_version(version)
                self._found[served], self._siblings[served] = version, versions

    @property
    def names(self) -> list[str]:
        """Every resource once, in order: `pods`, `deployments.apps`."""
        return list(dict.fromkeys(map(str, self._found)))

    def knows(self, kind: str) -> bool:
        """Whether a kind has this name or a similar one."""
        return bool(nearest(kind, self._found))

    def explain(self, kind: str) -> Explanation:
        """Explain a kind; raises UnknownTargetError with the most similar names."""
        served = find(kind, self._found)
        found = self._found[served]
        if isinstance(found, Row):
            return explain_row(found, self._table)
        explained = explain_version(found, self._siblings[served], self._table.server_version)
        rule = self._rules.find(served.group, served.kind)
        if rule is None:
            return explained
        return msgspec.structs.replace(explained, judged=describe_health_rule(rule))


def _served_row(row: Row, version: str) -> Served:
    return Served(
        group=row.group,
        version=version,
        resource=row.resource,
        singular=row.kind.lower(),
        kind=row.kind,
        short_names=row.short_names,
        namespaced=row.namespaced,
        has_status="status" in row.subresources,
        watchable=row.persisted,
    )


def _served_version(version: Version) -> Served:
    custom = version.custom
    singular, *short_names = version.names
    return Served(
        group=custom.group,
        version=custom.version,
        resource=custom.resource,
        singular=singular,
        kind=custom.kind,
        short_names=tuple(short_names),
        namespaced=version.namespaced,
        has_status=custom.status is StatusSubresource.PRESENT,
        watchable=True,
    )
