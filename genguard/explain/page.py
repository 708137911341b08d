"""Writes an explanation, or a finding (`explain finding/ID`), as a page of text.

A finding has what happened in one of its writes, and the steps that end its loop.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from genguard.detection.finding import Finding, FixStep, labels_of
from genguard.detection.sample import WriteDiff
from genguard.explain.explanation import (
    DELETION,
    STATUS,
    Explanation,
    Generation,
    GenerationPredicate,
    PredicateSafety,
)
from genguard.generation.custom import StatusSubresource
from genguard.generation.strategy import Equality, OnCreate, SubresourceRule
from genguard.generation.table import Behaviour, Writer
from genguard.objects.fields import from_pointer, to_field_path
from genguard.objects.shown import json_line
from genguard.shipped import shipped

_TEXTS: Final = shipped("genguard.explain", "texts.json", dict[str, dict[str, str]])
ON_CREATE: Final = _TEXTS["create"]
EQUALITY: Final = _TEXTS["equality"]
SUBRESOURCE: Final = _TEXTS["subresource"]
ON_DELETE: Final = _TEXTS["delete"]
PROPAGATION: Final = _TEXTS["propagation"]
PREDICATE: Final = _TEXTS["predicate"]
_KEPT: Final = _TEXTS["kept"]
"""What is said of each rule of the table, and of each safety."""
_SAID: Final = _TEXTS["said"]


class Section(NamedTuple):
    """A heading, and its lines: a label and a text each."""

    heading: str
    lines: tuple[tuple[str, str], ...]


def page(found: Explanation) -> tuple[Section, ...]:
    """Return the sections of the page; the first one names the kind."""
    return (
        Section(f"{found.kind}  {found.resource}", tuple(_served(found))),
        Section("GENERATION", tuple(_generation(found.generation))),
        Section("STATUS", tuple(_status(found))),
        Section("GenerationChangedPredicate", tuple(_predicate(found.generation_predicate))),
        Section("EVALUATED BY genguard status", tuple(_status_rule(found))),
    )


def _served(found: Explanation) -> Iterator[tuple[str, str]]:
    yield "versions", ", ".join(found.versions)
    for version, status in found.other_versions.items():
        yield "", f"{version}, {_TEXTS['statusSubresource'][status]}"
    if found.short_names:
        yield "short", ", ".join(found.short_names)
    yield "scope", "namespaced" if found.namespaced else "cluster"
    yield "Kubernetes", "".join(_lifetime(found))
    if found.in_cluster:
        yield "genguard", found.in_cluster


def _lifetime(found: Explanation) -> Iterator[str]:
    yield found.server_version if found.served else f"not served by {found.server_version}"
    if found.served_until:
        yield f"; served from {found.served_since} to {found.served_until}"
    elif found.served_since and not found.served:
        yield f"; served since {found.served_since}"
    if not found.enabled_by_default:
        yield "; off by default"


def _generation(found: Generation) -> Iterator[tuple[str, str]]:
    yield "create", ON_CREATE[found.on_create]
    if found.on_create is not OnCreate.NONE:
        yield "update", _update(found.counts, found.equality, found.excluded)
        deletion = [ON_DELETE[found.on_delete], PROPAGATION[found.propagation]]
        if not found.kept and deletion[0].startswith("+1"):
            deletion[0] += f"; {_SAID['absent']}"
        yield "delete", "; ".join(filter(None, deletion))
        for name, rule in sorted(found.subresources.items()):
            # Without a generation only an eviction, which deletes, counts.
            is_counted = found.kept or rule is SubresourceRule.EVICT
            yield f"/{name}", SUBRESOURCE[rule if is_counted else SubresourceRule.KEEP]
        yield "webhook", _SAID["sentOnCreate" if found.stored_as_sent else "sent"]
    yield from _history(found.history)
    if found.note:
        yield "note", found.note
    yield "source", found.source


def _update(counts: tuple[str, ...], equality: Equality, excluded: tuple[str, ...] = ()) -> str:
    if not counts:
        return SUBRESOURCE[SubresourceRule.KEEP]
    fields = " or ".join(pointer[1:].replace("/", ".") for pointer in counts)
    if excluded:
        fields = f"anything but {' and '.join(excluded)}"
    return f"+1 when {fields} changes; {EQUALITY[equality]}"


def _history(entries: tuple[Behaviour, ...]) -> Iterator[tuple[str, str]]:
    """Yield the behaviour before and since each change; nothing if it never changed."""
    for before, after in pairwise(entries):
        if before is entries[0]:
            yield f"before {after.since}", _behaviour(before)
        gate = f"with feature gate {after.gate}; " if after.gate else ""
        yield f"since {after.since}", f"{gate}{_behaviour(after)}"


def _behaviour(entry: Behaviour) -> str:
    update = _update(entry.compare, Equality(entry.equality))
    return f"create: {ON_CREATE[entry.create]}; update: {update}"


def _status(found: Explanation) -> Iterator[tuple[str, str]]:
    observed = found.observed_generation
    has_subresource = found.status_subresource is StatusSubresource.PRESENT
    if not found.custom and not has_subresource:
        yield "written", _SAID["noStatus"]
        return
    yield "written", _TEXTS["written"][found.status_subresource]
    if not has_subresource:
        yield "", _SAID["trails"]
    if observed.fields is None:
        yield "observed", _SAID["anyField"]
    elif not observed.fields:
        yield "observed", _SAID["noField"]
        return
    else:
        yield "observed", ", ".join(observed.fields)
    for gate, defaults in observed.gate.items():
        said = ", ".join(
            f"{'on' if on else 'off'} since {version}" for version, on in defaults.items()
        )
        yield "", f"feature gate {gate}: {said}"
    if observed.by is not None:
        since = f" since {observed.by.since}" if observed.by.since else ""
        yield "writer", f"{observed.by.component}{since}; {observed.by.source}"
    else:
        yield "writer", "its controller" if found.custom else "no component of Kubernetes"
    if observed.kept is not None:
        kept = observed.kept
        yield "cleared", f"{_KEPT[kept.how]} since {kept.since}; {kept.source}"
    else:
        yield "cleared", _SAID["restored"]
    yield from _condition_writers(observed.condition_writers)


def _condition_writers(writers: tuple[Writer, ...]) -> Iterator[tuple[str, str]]:
    for index, writer in enumerate(writers):
        label = "" if index else "conditions"
        yield label, f"{writer.component}, with observedGeneration since {writer.since}"
    if writers:
        yield "", _SAID["otherWriters"]


def _predicate(found: GenerationPredicate) -> Iterator[tuple[str, str]]:
    yield "safety", PREDICATE[found.safety]
    if found.safety is PredicateSafety.NEVER_STORED:
        return
    more = {DELETION: _SAID["deletion"], STATUS: _SAID["status"]}
    passes, misses = (
        "; ".join(f"{field} ({more[field]})" if field in shown else field for field in fields)
        for fields, shown in ((found.passes, (DELETION,)), (found.misses, (STATUS,)))
    )
    yield "passes", passes or "nothing"
    yield "misses", misses
    yield "instead", _TEXTS["instead"][found.safety]
    yield "source", _SAID["predicateSource"]


def _status_rule(found: Explanation) -> Iterator[tuple[str, str]]:
    rule = found.status_rule
    if rule.first:
        yield "first", rule.first
    yield "ready", rule.ready
    yield "settled", rule.settled
    if rule.amends:
        yield "amends", f"the Ready table of Improve .status: {rule.amends}"
    if rule.source:
        yield "source", rule.source


class FindingLine(NamedTuple):
    """One line: `lead` stands before the text; code is copied by people, so it stays one piece."""

    text: str
    lead: str = ""
    is_heading: bool = False
    is_code: bool = False


def finding_page(found: Finding) -> Iterator[FindingLine]:
    """Yield the lines of the page."""
    yield FindingLine(f"{found.detector}  {found.about}", is_heading=True)
    yield FindingLine(found.message, "  what    ")
    yield FindingLine(
        f"{found.severity}, {found.state}, {found.count}x, {found.first_seen} to {found.last_seen}",
        "  when    ",
    )
    yield FindingLine(", ".join(labels_of(found.actors)) or "not known", "  who     ")
    fields = [to_field_path(from_pointer(path)) for path in found.paths]
    yield FindingLine(", ".join(fields) or "no field in particular", "  fields  ")
    if found.diff is not None:
        yield from _what_happened(found.diff)
    if found.fix:
        yield FindingLine("WHAT ENDS IT", is_heading=True)
    for number, step in enumerate(found.fix, start=1):
        yield from _step(number, step)


_COLUMNS: Final = ("FIELD", "BEFORE", "ASKED", "LEFT", "STORED")


def _what_happened(diff: WriteDiff) -> Iterator[FindingLine]:
    yield FindingLine("WHAT HAPPENED", is_heading=True)
    manager = f" ({diff.field_manager})" if diff.field_manager else ""
    yield FindingLine(f"in the write of {diff.user}{manager} at {diff.time}", "  ")
    rows = [
        _COLUMNS,
        *((field.field, *("?" if each is None else each.text for each in field.states))
          for field in diff.fields),
    ]  # fmt: skip
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    for row in rows:
        cells = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        yield FindingLine("  ".join(cells).rstrip(), "  ", is_code=True)
    if diff.more:
        yield FindingLine(f"and {diff.more} more", "  ")
    if diff.patch:
        yield FindingLine("the other webhooks did:", "  ")
    for operation in diff.patch:
        yield FindingLine(json_line(operation), "    ", is_code=True)


def _step(number: int, step: FixStep) -> Iterator[FindingLine]:
    yield FindingLine(f"{step.title}. {step.text}", f"  {number}. ")
    for line in (step.command or step.stanza).splitlines():
        yield FindingLine(line, "       ", is_code=True)
    if step.trial is not None:
        yield FindingLine(step.trial.text, "     ")
