"""Everything that genguard knows of one kind; `genguard explain -o json` prints this value."""

import sys
from inspect import getdoc
from typing import Final

import msgspec

from genguard.explain.definition import Column, Version
from genguard.explain.predicate import GenerationPredicate, judge_predicate
from genguard.generation.custom import StatusSubresource, custom_strategy
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
