"""The table of kinds: what is shipped in kinds.json, checked when loaded, resolved for a server.

A row's `behaviour` is a list in order of `since`: the last entry whose version is reached, and
whose feature gate is on, holds. The rows were read from k8s.io/kubernetes v1.28 to v1.37 (`source`
names the file) and are compared with a running API server by tests/differential.
"""

from collections.abc import Mapping
from functools import cache
from typing import Final, Literal

import msgspec

from genguard.generation.strategy import (
    Equality,
    OnCreate,
    OnDelete,
    Propagation,
    Strategy,
    SubresourceRule,
    parse_version,
)
from genguard.objects.served import resource_name
from genguard.shipped import shipped

DEFAULT_SERVER_VERSION: Final = "1.36"
"""What is assumed when nobody says which server it is: the version the table is tested against."""


class BadTableError(ValueError):
    """kinds.json contradicts itself; the message names the row and what is wrong."""


class Behaviour(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the strategy does from a version on."""

    create: OnCreate
    compare: tuple[str, ...] = ()
    equality: Literal["semantic", "reflect"] = "semantic"
    since: str = ""
    gate: str = ""


class Writer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The part of Kubernetes that writes observedGeneration, and the file that does it."""

    component: str
    source: str
    since: str = ""


class Keeper(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Since when, and where, the API server does not let an update clear an observedGeneration.

    how  it stores the old value ("kept"), or answers with an error ("refused")
    """

    since: str
    source: str
    how: Literal["kept", "refused"] = "kept"


class Row(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One resource of the API server, on all its versions together.

    What not every version has is named in a mapping beside it: from its name to the first version
    that has it (`...since`), or to the last (`...until`). What 1.29 has is taken for that of 1.28,
    too. GenerationTable says what one server has.
    """

    group: str
    resource: str
    kind: str
    versions: tuple[str, ...]
    namespaced: bool
    served_since: str
    enabled_by_default: bool
    persisted: bool
    behaviour: tuple[Behaviour, ...]
    subresources: dict[str, SubresourceRule]
    delete: OnDelete
    propagation: Propagation
    observed_generation: tuple[str, ...]
    source: str
    served_until: str = ""
    enabled_since: str = ""
    versions_since: dict[str, str] = {}
    versions_until: dict[str, str] = {}
    subresources_since: dict[str, str] = {}
    observed_since: dict[str, str] = {}
    observed_generation_gate: dict[str, dict[str, bool]] = {}
    observed_by: Writer | None = None
    observed_kept: Keeper | None = None
    condition_writers: tuple[Writer, ...] = ()
    short_names: tuple[str, ...] = ()
    note: str = ""

    @property
    def name(self) -> str:
        """`deployments.apps`, `pods`: as kubectl writes it."""
        return resource_name(self.group, self.resource)


class GenerationTable:
    """Strategies of built-in resources for one server, by (group, resource)."""

    def __init__(
        self, server_version: str, gates: Mapping[str, bool], rows: tuple[Row, ...]
    ) -> None:
        self.server_version: Final = server_version
        self.rows: Final = rows
        self._reached: Final = parse_version(server_version)
        self._strategies: Final = {
            (row.group, row.resource): _resolve(row, self._reached, gates) for row in rows
        }

    def serves(self, row: Row) -> bool:
        """Whether a server of this version has the resource at all, enabled or not."""
        return self._has(row.served_since) and not self._is_past(row.served_until)

    def enables(self, row: Row) -> bool:
        """Whether a server of this version has the resource on without a flag."""
        return row.enabled_by_default and self._has(row.enabled_since)

    def versions(self, row: Row) -> tuple[str, ...]:
        """API versions of a resource on this server; all that are known where it has none."""
        found = tuple(
            name
            for name in row.versions
            if self._has(row.versions_since.get(name, ""))
            and not self._is_past(row.versions_until.get(name, ""))
        )
        return found or row.versions

    def observed(self, row: Row) -> tuple[str, ...]:
        """The fields for observedGeneration that this server stores."""
        return tuple(
            name for name in row.observed_generation if self._has(row.observed_since.get(name, ""))
        )

    def _has(self, since: str) -> bool:
        return not since or self._reached >= parse_version(since)

    def _is_past(self, until: str) -> bool:
        return bool(until) and self._reached > parse_version(until)

    def find(self, group: str, resource: str) -> Strategy | None:
        """The strategy of a built-in resource, None for everything else."""
        return self._strategies.get((group, resource))

    def strategies(self) -> tuple[Strategy, ...]:
        """All of them, in the table's order."""
        return tuple(self._strategies.values())


def load_table(
    server_version: str = DEFAULT_SERVER_VERSION, gates: Mapping[str, bool] | None = None
) -> GenerationTable:
    """The table as one server applies it; gates not named have their version's default.

    Raises UnknownServerVersionError when the version cannot be read.
    """
    return GenerationTable(server_version, gates or {}, load_rows())


def known_versions() -> tuple[str, str]:
    """The oldest and the newest Kubernetes that the table tells anything new of."""
    rows = load_rows()
    since = {row.served_since for row in rows}
    since |= {entry.since for row in rows for entry in row.behaviour if entry.since}
    return min(since, key=parse_version), max(since, key=parse_version)


def counted_since(group: str, resource: str) -> str | None:
    """The Kubernetes since which a built-in kind has a generation; None if always, or never."""
    row = find_row(group, resource)
    counting = (entry.since for entry in (row.behaviour if row else ()) if entry.compare)
    return next(counting, "") or None


@cache
def load_rows() -> tuple[Row, ...]:
    """Read and check kinds.json; raises BadTableError."""
    return check_rows(shipped("genguard.generation", "kinds.json", tuple[Row, ...]))


def find_row(group: str, resource: str) -> Row | None:
    """Return the row of a resource of Kubernetes itself; None for any other."""
    return _rows_by_resource().get((group, resource))


def kind_of(group: str, resource: str) -> str:
    """Return the kind of a resource of Kubernetes itself; "" for any other."""
    row = find_row(group, resource)
    return row.kind if row else ""


def has_observed_generation(group: str, resource: str) -> bool:
    """Whether a kind has, or may have, `status.observedGeneration`; of no built-in kind without."""
    row = find_row(group, resource)
    return row is None or "status.observedGeneration" in row.observed_generation


@cache
def _rows_by_resource() -> Mapping[tuple[str, str], Row]:
    return {(row.group, row.resource): row for row in load_rows()}


def check_rows(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """Refuse a table that contradicts itself; returns it unchanged. Raises BadTableError."""
    seen: set[tuple[str, str]] = set()
    for row in rows:
        if (row.group, row.resource) in seen:
            raise BadTableError(f"{row.name}: listed twice")
        seen.add((row.group, row.resource))
        if not row.behaviour or row.behaviour[0].since or row.behaviour[0].gate:
            raise BadTableError(f"{row.name}: the first behaviour must hold on every server")
        versions = [parse_version(entry.since) for entry in row.behaviour[1:]]
        if versions != sorted(set(versions)):
            raise BadTableError(f"{row.name}: behaviours must be in order of their versions")
        stored = all(entry.create is not OnCreate.NONE for entry in row.behaviour)
        if stored != row.persisted:
            raise BadTableError(f"{row.name}: persisted and create contradict each other")
        if row.persisted == (row.delete is OnDelete.NONE):
            raise BadTableError(f"{row.name}: persisted and delete contradict each other")
        if not row.observed_generation and (row.observed_by or row.observed_kept):
            raise BadTableError(f"{row.name}: says who writes an observedGeneration it has not")
        _check_when(row)
        for entry in row.behaviour:
            if any(not pointer.startswith("/") for pointer in entry.compare):
                raise BadTableError(f"{row.name}: compare takes JSON Pointers")
    return rows


def _check_when(row: Row) -> None:
    """Refuse a row that says since or until when it has something which it does not list."""
    for known, named in (
        (row.versions, row.versions_since | row.versions_until),
        (row.subresources, row.subresources_since),
        (row.observed_generation, row.observed_since),
    ):
        if not named.keys() <= set(known):
            unknown = ", ".join(sorted(named.keys() - set(known)))
            raise BadTableError(f"{row.name}: says when {unknown} came, which it does not list")
    if row.enabled_since and not row.enabled_by_default:
        told_twice = "enabledSince and enabledByDefault contradict each other"
        raise BadTableError(f"{row.name}: {told_twice}")


def _resolve(row: Row, reached: tuple[int, int], gates: Mapping[str, bool]) -> Strategy:
    behaviour = row.behaviour[0]
    for entry in row.behaviour[1:]:
        if reached >= parse_version(entry.since) and gates.get(entry.gate, True):
            behaviour = entry
    return Strategy(
        group=row.group,
        resource=row.resource,
        kind=row.kind,
        on_create=behaviour.create,
        compare=behaviour.compare,
        equality=Equality(behaviour.equality),
        subresources={
            name: rule
            for name, rule in row.subresources.items()
            if reached >= parse_version(row.subresources_since.get(name, "0.0"))
        },
        on_delete=row.delete,
        propagation=row.propagation,
        source=row.source,
        note=row.note,
    )
