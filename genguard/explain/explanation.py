"""Everything that genguard knows of one kind; `genguard explain -o json` prints this value.

Of a CustomResourceDefinition the versions are read as far as they are shown (source:
apiextensions-apiserver pkg/apis/apiextensions/v1/types.go).

GenerationChangedPredicate of controller-runtime drops each update event that leaves
metadata.generation as it was. Events of creation, and of the removal of an object, always pass.
Source: controller-runtime pkg/predicate/predicate.go.
"""

import sys
from collections.abc import Mapping
from enum import StrEnum
from inspect import getdoc
from typing import Any, Final

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
from genguard.status.health_rules import HealthRule, Key
from genguard.status.kind_rule import KindRule
from genguard.status.kinds import find_rule
from genguard.status.kinds.generic import GENERIC
from genguard.status.ready_table import load_ready_table

_OBSERVED_FIELD: Final = "observedGeneration"


class Column(msgspec.Struct, frozen=True, rename="camel"):
    """A printer column, which `kubectl get` shows."""

    name: str
    json_path: str


class Version(msgspec.Struct, frozen=True):
    """One version: what the generation engine reads, and what only `genguard explain` shows."""

    custom: CustomResource
    names: tuple[str, ...]
    """Singular and short names."""
    namespaced: bool
    stored: bool
    scales: bool
    observed: tuple[str, ...] | None
    """The fields of its schema for observedGeneration; None when the schema is open."""
    columns: tuple[Column, ...]


def read_versions(definition: Mapping[str, Any]) -> tuple[Version, ...]:
    """Return every version of a decoded definition, the stored version first.

    Raises BadDefinitionError when a field that the generation engine needs is missing.
    """
    known = from_definition(definition)
    spec = definition["spec"]
    names = spec["names"]
    singular = names.get("singular") or str(names["kind"]).lower()
    found = [
        Version(
            custom=custom,
            names=(singular, *_texts(names.get("shortNames"))),
            namespaced=spec.get("scope") == "Namespaced",
            stored=bool(version.get("storage")),
            scales=bool(_at(version, "subresources", "scale")),
            observed=_observed(version),
            columns=tuple(_columns(version.get("additionalPrinterColumns"))),
        )
        for custom, version in zip(known, spec["versions"], strict=True)
    ]
    return tuple(sorted(found, key=lambda version: not version.stored))


def _observed(version: Mapping[str, Any]) -> tuple[str, ...] | None:
    schema = _at(version, "schema", "openAPIV3Schema")
    status = _at(schema, "properties", "status")
    if any(_is_open(part) for part in (schema, status)):
        return None
    condition = _at(status, "properties", "conditions", "items", "properties")
    own = ("status.observedGeneration",) if _OBSERVED_FIELD in _at(status, "properties") else ()
    return (*own, "status.conditions[].observedGeneration") if _OBSERVED_FIELD in condition else own


def _is_open(schema: Mapping[str, Any]) -> bool:
    return schema.get("x-kubernetes-preserve-unknown-fields") is True


def _at(value: Any, *keys: str) -> Mapping[str, Any]:
    """Return the object below these keys; {} when there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _texts(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _columns(value: Any) -> list[Column]:
    found = []
    for column in value if isinstance(value, list) else ():
        if not isinstance(column, Mapping):
            continue
        name, path = column.get("name"), column.get("jsonPath")
        if isinstance(name, str) and isinstance(path, str) and name:
            found.append(Column(name, path))
    return found


class PredicateVerdict(StrEnum):
    """What the predicate does for a controller that acts on what a kind's objects ask for."""

    SAFE = "safe"
    """It passes each change of what is asked for, and the start of a deletion, and drops others."""
    NOISY = "noisy"
    """It also passes writes that ask for nothing new."""
    PARTLY = "partly"
    """It drops some writes that such a controller may need."""
    UNSAFE = "unsafe"
    """It drops every update."""
    UNKNOWN = "unknown"
    """Whether status is a subresource is not known."""
    NEVER_STORED = "neverStored"
    """There are no events."""


class GenerationPredicate(msgspec.Struct, frozen=True, rename="camel"):
    """What GenerationChangedPredicate does with the updates of a kind.

    passes  the fields that move generation when they change; metadata.deletionTimestamp does while
            finalizers, or a grace period, keep the object
    misses  the fields and subresources whose writes leave generation as it was
    """

    verdict: PredicateVerdict
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


def judge_predicate(
    strategy: Strategy, subresources: Mapping[str, SubresourceRule], status: StatusSubresource
) -> GenerationPredicate:
    """Return what the predicate does, for the subresources that the kind really has."""
    if strategy.on_create is OnCreate.NONE:
        return GenerationPredicate(PredicateVerdict.NEVER_STORED)
    fields = tuple(pointer[1:].replace("/", ".") for pointer in strategy.compare)
    if strategy.excluded:
        # A custom resource, of which everything but the excluded fields counts.
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
        _verdict(strategy, status, fields, is_partly=bool(others) or not counts_deletion),
        passes,
        tuple(misses),
    )


def _verdict(
    strategy: Strategy, status: StatusSubresource, fields: tuple[str, ...], *, is_partly: bool
) -> PredicateVerdict:
    if not strategy.compare:
        return PredicateVerdict.UNSAFE
    if strategy.excluded and status is StatusSubresource.UNKNOWN:
        return PredicateVerdict.UNKNOWN
    if is_partly:
        return PredicateVerdict.PARTLY
    if EVERYTHING in fields or any(field in _METADATA for field in fields):
        return PredicateVerdict.NOISY
    return PredicateVerdict.SAFE


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
    """Return how a kind is evaluated, from the docstrings of its rule and the rule's module."""
    rule = find_rule(group, kind)
    own = _read_sections(rule.evaluate)
    module = _read_sections(sys.modules[rule.evaluate.__module__])
    return StatusRule(
        ready=own["Ready"],
        settled=own["Settled"] + (f"; {_NONE_TERMINATING}" if rule.waits_for_terminating else ""),
        first=_first(rule),
        amends=_amendment(group, kind),
        source=module.get("Source", ""),
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


def _read_sections(documented: object) -> dict[str, str]:
    """Return the sections of a docstring by name: `Ready    text`, and its indented lines."""
    found: dict[str, str] = {}
    word = ""
    for line in (getdoc(documented) or "").splitlines():
        name, _, text = line.partition("  ")
        if line.startswith("  ") and word:
            found[word] += f" {line.strip()}"
        elif name.isalpha() and text:
            word = name
            found[word] = text.strip()
        else:
            word = ""
    return found


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
    """One resource on an API server of one version."""

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
    judged: StatusRule
    generation_predicate: GenerationPredicate
    columns: tuple[Column, ...] = ()
    other_versions: dict[str, StatusSubresource] = {}


def explain_row(row: Row, table: GenerationTable) -> Explanation:
    """Explain a built-in resource on an API server of the table's version."""
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
        judged=describe_status_rule(row.group, row.kind),
        generation_predicate=judge_predicate(strategy, strategy.subresources, status),
    )


def explain_version(
    version: Version, others: tuple[Version, ...], server_version: str
) -> Explanation:
    """Explain one version of a custom resource; `others` are all versions of its definition."""
    custom = version.custom
    strategy = custom_strategy(custom)
    has = {"scale": version.scales, "status": custom.status is not StatusSubresource.ABSENT}
    rules = {name: rule for name, rule in strategy.subresources.items() if has[name]}
    return Explanation(
        resource=f"{custom.resource}.{custom.group}",
        kind=custom.kind,
        versions=(custom.version,),
        short_names=version.names[1:],
        namespaced=version.namespaced,
        server_version=server_version,
        served=True,
        served_since="",
        served_until="",
        enabled_by_default=True,
        custom=True,
        generation=_generation(strategy, rules, ()),
        status_subresource=custom.status,
        observed_generation=Observed(version.observed),
        judged=describe_status_rule(custom.group, custom.kind),
        generation_predicate=judge_predicate(strategy, rules, custom.status),
        columns=version.columns,
        other_versions={
            one.custom.version: one.custom.status for one in others if one is not version
        },
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
