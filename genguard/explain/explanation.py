"""Everything that genguard knows of one kind; `genguard explain -o json` prints this value.

GenerationChangedPredicate of controller-runtime drops each update event that leaves
metadata.generation as it was. Events of creation, and of the removal of an object, always pass.
Source: controller-runtime pkg/predicate/predicate.go.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

import msgspec

from genguard.generation.custom import (
    CustomResource,
    StatusSubresource,
    custom_strategy,
    from_definition,
)
from genguard.generation.strategy import (
    Equality,
    OnCreate,
    OnDelete,
    Propagation,
    Strategy,
    SubresourceRule,
)
from genguard.generation.table import Behaviour, GenerationTable, Keeper, Row, Writer
from genguard.linting.definition import DefinedVersion
from genguard.linting.hook import texts
from genguard.objects.fields import mapping
from genguard.objects.served import Served, find
from genguard.shipped import shipped
from genguard.status import kinds
from genguard.status.health_rules import HealthRule, HealthRules, Key
from genguard.status.kind_rule import KindRule
from genguard.status.kinds.generic import GENERIC
from genguard.status.ready_table import load_ready_table


class Version(NamedTuple):
    """One version of a CustomResourceDefinition; `spec` is that of the definition."""

    custom: CustomResource
    spec: Mapping[str, Any]
    defined: DefinedVersion

    @property
    def served(self) -> Served:
        """The kind by all its names."""
        custom, names = self.custom, self.spec["names"]
        return Served(
            group=custom.group,
            version=custom.version,
            resource=custom.resource,
            singular=names.get("singular") or str(names["kind"]).lower(),
            kind=custom.kind,
            short_names=texts(names.get("shortNames")),
            namespaced=self.spec.get("scope") == "Namespaced",
            has_status=custom.status is StatusSubresource.PRESENT,
            watchable=True,
        )

    @property
    def observed(self) -> tuple[str, ...] | None:
        """The fields of its schema for observedGeneration; None when the schema is open."""
        status, condition = self.defined.status, self.defined.condition
        if self.defined.schema.is_open or (status and status.is_open):
            return None
        sections = (("status", status), ("status.conditions[]", condition))
        return tuple(
            f"{path}.observedGeneration"
            for path, schema in sections
            if schema and schema.field("observedGeneration")
        )


def read_versions(definition: Mapping[str, Any]) -> tuple[Version, ...]:
    """Return every version of a decoded definition, the stored version first.

    Raises BadDefinitionError when a field that the generation engine needs is missing.
    """
    customs, spec = from_definition(definition), definition["spec"]
    found = [
        Version(custom, spec, DefinedVersion("", index, body))
        for index, (custom, body) in enumerate(zip(customs, spec["versions"], strict=True))
    ]
    return tuple(sorted(found, key=lambda version: not version.defined.body.get("storage")))


class PredicateSafety(StrEnum):
    """What the predicate does for a controller that acts on what a kind's objects ask for."""

    # texts.json says it of each.
    SAFE = "safe"
    NOISY = "noisy"
    PARTLY = "partly"
    UNSAFE = "unsafe"
    UNKNOWN = "unknown"
    NEVER_STORED = "neverStored"


class GenerationPredicate(msgspec.Struct, frozen=True, rename="camel"):
    """What GenerationChangedPredicate does with the updates of a kind.

    passes  the fields that move generation when they change; metadata.deletionTimestamp does while
            finalizers, or a grace period, keep the object
    misses  the fields and subresources whose writes leave generation as it was
    """

    safety: PredicateSafety
    passes: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()


DELETION: Final = "metadata.deletionTimestamp"
EVERYTHING: Final = "every field but metadata"
EVERYTHING_BUT_STATUS: Final = "every field but metadata and status"
STATUS: Final = "status"
_METADATA: Final = (
    "metadata.labels",
    "metadata.annotations",
    "metadata.ownerReferences",
    "metadata.finalizers",
)


def describe_predicate(
    strategy: Strategy, subresources: Mapping[str, SubresourceRule], status: StatusSubresource
) -> GenerationPredicate:
    """Return what the predicate does, for the subresources that the kind really has."""
    if strategy.on_create is OnCreate.NONE:
        return GenerationPredicate(PredicateSafety.NEVER_STORED)
    fields = tuple(pointer[1:].replace("/", ".") for pointer in strategy.compare)
    if strategy.excluded:
        # A custom resource: everything but the excluded fields counts.
        fields = (EVERYTHING_BUT_STATUS if "status" in strategy.excluded else EVERYTHING,)
    # Without a generation from the start, there is none to move when the deletion begins.
    counts_deletion = (
        strategy.on_delete in (OnDelete.GRACEFUL, OnDelete.FINALIZERS)
        and strategy.on_create is OnCreate.ONE
    )
    misses = [field for field in _METADATA if field not in fields]
    misses += [] if counts_deletion else [DELETION]
    kept = [name for name, rule in subresources.items() if rule is SubresourceRule.KEEP]
    others = [f"/{name}" for name in sorted(kept) if name != STATUS]
    has_status = STATUS in kept
    misses += [*others, *([STATUS] if has_status else [])]
    passes = (*fields, DELETION) if counts_deletion else fields
    return GenerationPredicate(
        _safety(strategy, status, fields, is_partly=bool(others) or not counts_deletion),
        passes,
        tuple(misses),
    )


def _safety(
    strategy: Strategy, status: StatusSubresource, fields: tuple[str, ...], *, is_partly: bool
) -> PredicateSafety:
    if not strategy.compare:
        return PredicateSafety.UNSAFE
    if strategy.excluded and status is StatusSubresource.UNKNOWN:
        return PredicateSafety.UNKNOWN
    if is_partly:
        return PredicateSafety.PARTLY
    if EVERYTHING in fields or any(field in _METADATA for field in fields):
        return PredicateSafety.NOISY
    return PredicateSafety.SAFE


_OBSERVED: Final = "status.observedGeneration is metadata.generation"
_OBSERVED_IF_WRITTEN: Final = "status.observedGeneration, if there is one, is metadata.generation"
_NONE_TERMINATING: Final = "none of its pods is terminating (KEP-3973)"


class StatusRule(msgspec.Struct, frozen=True, rename="camel"):
    """How `genguard status` evaluates a kind: a sentence each.

    first    what must hold before the other conditions are checked
    amends   how ready differs from the Ready table of "Improve .status"
    """

    ready: str
    settled: str
    first: str
    amends: str
    source: str
    generic: bool


def describe_status_rule(group: str, kind: str) -> StatusRule:
    """Return how a kind is evaluated, in the words of evaluated.yaml beside the rules."""
    rule = kinds.find_rule(group, kind)
    texts = shipped("genguard.status.kinds", "evaluated.yaml", dict[str, dict[str, str]])
    said = texts[rule.evaluate.__name__.removeprefix("evaluate_")]
    return StatusRule(
        ready=said["ready"],
        settled=said["settled"] + (f"; {_NONE_TERMINATING}" if rule.waits_for_terminating else ""),
        first=_first(rule),
        amends=_amendment(group, kind),
        source=said["source"],
        generic=rule is GENERIC,
    )


def describe_health_rule(rule: HealthRule) -> StatusRule:
    """Return how a custom kind is evaluated by a rule in CEL: its expressions."""
    given = rule.expressions
    unless = [f"not `{key}`: {given[key]}" for key in (Key.IN_PROGRESS, Key.FAILED) if key in given]
    current = "; ".join([f"`current`: {given[Key.CURRENT]}", *unless])
    own = {key: f"`{key}`: {given[key]}" for key in (Key.READY, Key.SETTLED) if key in given}
    return StatusRule(
        ready=own.get(Key.READY, current),
        settled=own.get(Key.SETTLED, current),
        first=_OBSERVED_IF_WRITTEN,
        amends="",
        source=f"rule in CEL ({rule.source})",
        generic=False,
    )


def _first(rule: KindRule) -> str:
    if rule.status_unwritten:
        return ""
    return _OBSERVED if rule.always_observed else _OBSERVED_IF_WRITTEN


def _amendment(group: str, kind: str) -> str:
    rows = load_ready_table().rows
    found = (row.amendment for row in rows if row.kind == kind and group in row.groups)
    return next(filter(None, found), "")


class Generation(msgspec.Struct, frozen=True, rename="camel"):
    """When metadata.generation changes. The fields are those of Strategy and Row.

    stored_as_sent  the operations on which the value from a webhook is stored
    history         the behaviour of older and newer servers; one entry if it never changed
    """

    kept: bool
    on_create: OnCreate
    counts: tuple[str, ...]
    excluded: tuple[str, ...]
    equality: Equality
    subresources: dict[str, SubresourceRule]
    on_delete: OnDelete
    propagation: Propagation
    stored_as_sent: tuple[str, ...]
    history: tuple[Behaviour, ...]
    source: str
    note: str = ""


class Observed(msgspec.Struct, frozen=True, rename="camel"):
    """Where observedGeneration is, who writes it, and whether the API server restores it.

    fields  None when the schema is open, so that any field is possible
    """

    fields: tuple[str, ...] | None
    gate: dict[str, dict[str, bool]] = {}
    by: Writer | None = None
    kept: Keeper | None = None
    condition_writers: tuple[Writer, ...] = ()


class Explanation(msgspec.Struct, frozen=True, rename="camel"):
    """One resource on an API server of one version.

    in_cluster  whether the genguard of a cluster sees its writes, and how; "": none was asked
    """

    resource: str
    kind: str
    versions: tuple[str, ...]
    short_names: tuple[str, ...]
    namespaced: bool
    server_version: str
    served: bool
    served_since: str
    served_until: str
    enabled_by_default: bool
    custom: bool
    generation: Generation
    status_subresource: StatusSubresource
    observed_generation: Observed
    status_rule: StatusRule
    generation_predicate: GenerationPredicate
    other_versions: dict[str, StatusSubresource] = {}
    in_cluster: str = ""


class Catalogue:
    """The kinds of one API server version, and the custom resources of definitions."""

    def __init__(
        self,
        table: GenerationTable,
        definitions: Iterable[Mapping[str, Any]],
        rules: HealthRules | None = None,
    ) -> None:
        """`rules` evaluate custom resources, in CEL. Raises BadDefinitionError."""
        self._rules: Final = HealthRules() if rules is None else rules
        self._table: Final = table
        self._rows: Final = {
            served_row(row, name): row for row in table.rows for name in row.versions
        }
        self._custom: Final = {
            version.served: (version, versions)
            for versions in map(read_versions, definitions)
            for version in versions
        }

    @property
    def names(self) -> list[str]:
        """Every resource once, in order: `pods`, `deployments.apps`."""
        return list(dict.fromkeys(map(str, self._known)))

    @property
    def _known(self) -> list[Served]:
        return [*self._rows, *self._custom]

    def explain(self, kind: str) -> Explanation:
        """Explain a kind; raises UnknownTargetError with the most similar names."""
        served = find(kind, self._known)
        if served in self._custom:
            return self._explain_custom(served, *self._custom[served])
        return self._explain_row(self._rows[served])

    def _explain_row(self, row: Row) -> Explanation:
        """Explain a built-in resource."""
        table = self._table
        strategy = table.find(row.group, row.resource)
        if strategy is None:
            raise KeyError(row.name)
        has_status = "status" in strategy.subresources
        status = StatusSubresource.PRESENT if has_status else StatusSubresource.ABSENT
        return Explanation(
            resource=row.name,
            kind=row.kind,
            versions=table.versions(row),
            short_names=row.short_names,
            namespaced=row.namespaced,
            server_version=table.server_version,
            served=table.serves(row),
            served_since=row.served_since,
            served_until=row.served_until,
            enabled_by_default=table.enables(row),
            custom=False,
            generation=_generation(strategy, strategy.subresources, row.behaviour),
            status_subresource=status,
            observed_generation=Observed(
                table.observed(row),
                row.observed_generation_gate,
                row.observed_by,
                row.observed_kept,
                row.condition_writers,
            ),
            status_rule=describe_status_rule(row.group, row.kind),
            generation_predicate=describe_predicate(strategy, strategy.subresources, status),
        )

    def _explain_custom(
        self, served: Served, version: Version, versions: tuple[Version, ...]
    ) -> Explanation:
        """Explain one of the versions of a definition."""
        status = version.custom.status
        strategy = custom_strategy(version.custom)
        scales = bool(mapping(mapping(version.defined.body.get("subresources")).get("scale")))
        has = {"scale": scales, "status": status is not StatusSubresource.ABSENT}
        subresources = {name: rule for name, rule in strategy.subresources.items() if has[name]}
        rule = self._rules.find(served.group, served.kind)
        others = (other.custom for other in versions if other is not version)
        return Explanation(
            resource=f"{served.resource}.{served.group}",
            kind=served.kind,
            versions=(served.version,),
            short_names=served.short_names,
            namespaced=served.namespaced,
            server_version=self._table.server_version,
            served=True,
            served_since="",
            served_until="",
            enabled_by_default=True,
            custom=True,
            generation=_generation(strategy, subresources, ()),
            status_subresource=status,
            observed_generation=Observed(version.observed),
            status_rule=describe_health_rule(rule)
            if rule
            else describe_status_rule(served.group, served.kind),
            generation_predicate=describe_predicate(strategy, subresources, status),
            other_versions={custom.version: custom.status for custom in others},
        )


def served_row(row: Row, version: str) -> Served:
    """Return a kind of Kubernetes itself by all its names, in one version."""
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


def _generation(
    strategy: Strategy, subresources: dict[str, SubresourceRule], history: tuple[Behaviour, ...]
) -> Generation:
    return Generation(
        kept=strategy.keeps_generation,
        on_create=strategy.on_create,
        counts=strategy.compare,
        excluded=tuple(sorted(strategy.excluded)),
        equality=strategy.equality,
        subresources=subresources,
        on_delete=strategy.on_delete,
        propagation=strategy.propagation,
        stored_as_sent=("CREATE",) if strategy.stores_what_is_sent else (),
        history=history,
        source=strategy.source,
        note=strategy.note,
    )
