"""Which phases of which writes must be registered to see and repair all that can be, and why.

The validating registration, /outcome, says which writes are watched. Of each of them

- all three phases are needed where another webhook or a policy may change it: only so it is known
  who changed what;
- /mutate is needed where genguard repairs, and where writes are refused before /outcome;
- /outcome alone shows everything else. Who writes is known there, and what is stored.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import Final, NamedTuple

from genguard.admission.matching import EVERYTHING, Rule, Writes, may_match
from genguard.admission.review import Phase

Mutators = Callable[[Writes], Sequence[str]]
"""Names who may change such writes; see Suspects.may_change."""

_OPERATIONS: Final = ("CREATE", "UPDATE")
"""Those with a phase before /outcome: a patch of a deletion would fail it."""
_PROBED: Final = Writes("", "podtemplates", "CREATE")
"""Dry runs of these prove to `genguard install` and `doctor` that each phase is reached."""


class Need(NamedTuple):
    """The phases that writes need.

    changed_by  webhooks and policies that may change them
    is_refused  they were refused lately
    """

    writes: Writes
    phases: tuple[Phase, ...]
    changed_by: tuple[str, ...] = ()
    is_refused: bool = False


def needs_of(
    outcome: Iterable[Rule],
    mutators: Mutators,
    *,
    enforcing: bool,
    refused: Callable[[Writes], bool] = lambda _: False,
) -> tuple[Need, ...]:
    """Return what the writes need that the rules of /outcome name, in their order.

    refused  whether such writes are refused before /outcome
    """
    found = []
    for one in dict.fromkeys(one for rule in outcome for one in _writes_of(rule)):
        changed_by, is_refused = tuple(mutators(one)), refused(one)
        phases: tuple[Phase, ...] = (Phase.OUTCOME,)
        if changed_by or one == _PROBED:
            phases = tuple(Phase)
        elif enforcing or is_refused:
            phases = (Phase.MUTATE, Phase.OUTCOME)
        found.append(Need(one, phases, changed_by, is_refused))
    return tuple(found)


def rules_of(
    phase: Phase, outcome: Iterable[Rule], present: Iterable[Rule], needs: Iterable[Need]
) -> list[Rule]:
    """Return the rules of a mutating phase after what writes need.

    present  the rules that it has: those for nothing that /outcome watches are kept
    """
    needs = tuple(needs)
    needed = {one.writes for one in needs if phase in one.phases}
    mine = [rule for one in outcome for rule in _limited(one, needed)]
    others = [rule for rule in present if not any(may_match([rule], one.writes) for one in needs)]
    return [*mine, *others]


def _writes_of(rule: Rule) -> Iterator[Writes]:
    groups, resources = rule.get("apiGroups") or (), rule.get("resources") or ()
    for operation, group, resource in product(_operations(rule), groups, resources):
        yield Writes(group, resource, operation)


def _operations(rule: Rule) -> list[str]:
    given = rule.get("operations") or ()
    return [one for one in _OPERATIONS if one in given or EVERYTHING in given]


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
