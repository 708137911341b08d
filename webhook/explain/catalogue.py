"""The kinds that can be explained, found by any of their names, as with kubectl."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from webhook.explain.definition import Version, read_versions
from webhook.explain.explanation import Explanation, explain_row, explain_version
from webhook.generation.custom import StatusSubresource
from webhook.generation.table import GenerationTable, Row
from webhook.objects.served import Served, find, nearest


class Catalogue:
    """The table of one server, and definitions of custom resources."""

    def __init__(self, table: GenerationTable, definitions: Iterable[Mapping[str, Any]]) -> None:
        """Raises BadDefinitionError."""
        self._table: Final = table
        self._found: Final[dict[Served, Row | Version]] = {}
        for row in table.rows:
            for version in row.versions:
                self._found[_served_row(row, version)] = row
        self._siblings: Final[dict[Served, tuple[Version, ...]]] = {}
        for definition in definitions:
            versions = read_versions(definition)
            for one in versions:
                served = _served_version(one)
                self._found[served], self._siblings[served] = one, versions

    @property
    def names(self) -> list[str]:
        """`pods`, `deployments.apps`: each once, in order."""
        return list(dict.fromkeys(str(one) for one in self._found))

    def knows(self, kind: str) -> bool:
        """Whether one is called so, or nearly so."""
        return bool(nearest(kind, self._found))

    def explain(self, kind: str) -> Explanation:
        """What is known of a kind; raises UnknownTargetError, which tells the nearest names."""
        served = find(kind, self._found)
        found = self._found[served]
        if isinstance(found, Row):
            return explain_row(found, self._table)
        return explain_version(found, self._siblings[served], self._table.server_version)


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
