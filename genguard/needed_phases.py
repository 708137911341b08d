"""Which phases of which writes must be registered to see and repair all that can be, and why.

The validating registration, /outcome, says which writes are watched. For each of them

- all three phases are needed where another webhook or a policy may change it: only so it is known
  who changed what;
- /mutate is needed where writes are refused before /outcome;
- /repair, which is /mutate for a write that loses an observedGeneration, where genguard repairs and
  nobody else acts: the API server asks its condition on the object as earlier webhooks left it, and
  does not call again in a reinvocation whom it has skipped (apiserver
  pkg/admission/plugin/webhook/mutating/dispatcher.go:ShouldCallHook);
- /outcome alone shows everything else. Who writes is known there, and what is stored.

Custom resources have all three where somebody may change them; else a watch shows them.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from types import MappingProxyType
from typing import Final, NamedTuple

from genguard.admission.matching import EVERYTHING, Rule, Writes, may_match
from genguard.admission.review import Phase
from genguard.generation.custom import CustomResource, StatusSubresource

MayChange = Callable[[Writes], Sequence[str]]
"""Names who may change such writes; see genguard/detection/mutators.py."""

_OPERATIONS: Final = ("CREATE", "UPDATE")
"""Those with a phase before /outcome: a patch of a deletion would fail it."""
_PROBED: Final = Writes("", "podtemplates", "CREATE")
"""Dry runs of these prove to `genguard install` and `doctor` that each phase is reached."""


class Need(NamedTuple):
    """The phases that writes need.

    changed_by  webhooks and policies that may change them
    is_refused  they were refused lately
    is_repaired  those that lose an observedGeneration are
    """

    writes: Writes
    phases: tuple[Phase, ...]
    changed_by: tuple[str, ...] = ()
    is_refused: bool = False
    is_repaired: bool = False


def custom_writes(known: Iterable[CustomResource], outcome: Sequence[Rule]) -> dict[Writes, bool]:
    """Return the writes of custom resources, each with whether the server takes status.

    Those that the rules of /outcome name are left out.
    """
    found: dict[Writes, bool] = {}
    for resource in known:
        has_subresource = resource.status is StatusSubresource.PRESENT
        update = Writes(resource.group, resource.resource, "UPDATE")
        found[update._replace(operation="CREATE")] = False
        found[update] = found.get(update, False) or not has_subresource
        if has_subresource:
            found[update._replace(resource=f"{resource.resource}/status")] = True
    return {writes: takes for writes, takes in found.items() if not may_match(outcome, writes)}


def needs_of(
    outcome: Iterable[Rule],
    may_change: MayChange,
    *,
    enforcing: bool,
    always: bool = False,
    refused: Callable[[Writes], bool] = lambda _: False,
    custom: Mapping[Writes, bool] = MappingProxyType({}),
) -> tuple[Need, ...]:
    """Return what the writes need that the rules of /outcome name, in their order, and `custom`.

    always   genguard changes more than what a write loses: all that is watched needs /mutate
    refused  whether such writes are refused before /outcome
    """
    found = []
    for writes in dict.fromkeys(
        (*(named for rule in outcome for named in writes_of(rule)), *custom)
    ):
        is_watched = writes not in custom
        changed_by, is_refused = tuple(may_change(writes)), is_watched and refused(writes)
        phases: tuple[Phase, ...] = (Phase.OUTCOME,) if is_watched else ()
        if changed_by or writes == _PROBED:
            phases = tuple(Phase)
        elif is_refused or (enforcing and always and is_watched):
            phases = (Phase.MUTATE, Phase.OUTCOME)
        is_status = writes.operation == "UPDATE" and writes.resource.endswith("/status")
        is_repaired = enforcing and Phase.MUTATE not in phases and custom.get(writes, is_status)
        found.append(Need(writes, phases, changed_by, is_refused, is_repaired))
    return tuple(found)


def rules_for(writes: Iterable[Writes]) -> list[Rule]:
    """Return rules for writes in any version; those of one group and operation are one rule."""
    found = defaultdict(list)
    for write in writes:
        found[write.group, write.operation].append(write.resource)
    return [
        {"apiGroups": [at], "apiVersions": ["*"], "operations": [how], "resources": names}
        for (at, how), names in found.items()
    ]


def rules_of(
    phase: Phase, outcome: Iterable[Rule], present: Iterable[Rule], needs: Iterable[Need]
) -> list[Rule]:
    """Return the rules of a mutating phase after what writes need.

    present  the rules that it has: those for nothing that /outcome watches are kept
    """
    needs = tuple(needs)
    needed = {need.writes for need in needs if phase in need.phases}
    mine = [limited for rule in outcome for limited in _limited(rule, needed)]
    others = [rule for rule in present if not any(may_match([rule], need.writes) for need in needs)]
    return [*mine, *others]


def writes_of(rule: Rule) -> Iterator[Writes]:
    """Yield the creations and updates that a rule names; a wildcard stays one."""
    groups, resources = rule.get("apiGroups") or (), rule.get("resources") or ()
    for operation, group, resource in product(_operations(rule), groups, resources):
        yield Writes(group, resource, operation)


def _operations(rule: Rule) -> list[str]:
    given = rule.get("operations") or ()
    return [operation for operation in _OPERATIONS if operation in given or EVERYTHING in given]


def _limited(rule: Rule, needed: set[Writes]) -> Iterator[Rule]:
    """Yield a rule for what is needed of it; operations that need the same are one rule."""
    by_resources: dict[tuple[str, ...], list[str]] = {}
    groups = rule.get("apiGroups") or ()
    for operation in _operations(rule):
        resources = tuple(
            name
            for name in rule.get("resources") or ()
            if any(Writes(group, name, operation) in needed for group in groups)
        )
        if resources:
            by_resources.setdefault(resources, []).append(operation)
    for resources, operations in by_resources.items():
        yield {**rule, "operations": operations, "resources": [*resources]}
