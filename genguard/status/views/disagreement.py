"""Explains in one line why genguard, kstatus, Argo CD and kubectl disagree about an object.

The causes are rows of disagreement.yaml: the first cause that holds and explains one of the
contradicting tools is the answer. Source: the rules of the tools, cited in the other modules of
this folder.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Annotated, Any, Final

import msgspec

from genguard.formats.kube_yaml import load_document
from genguard.objects.fields import ABSENT
from genguard.status.views.argo import ArgoHealth, assess, is_hook
from genguard.status.views.go_values import (
    Document,
    TypeMismatchError,
    is_int64,
    kind_of,
    nested_or_absent,
    number,
    text,
)
from genguard.status.views.kstatus import RULES, Kstatus, compute
from genguard.status.views.rollout import Rollout


class Outcome(StrEnum):
    """What the answer of a tool means; answers of different tools are compared by it."""

    DONE = "done"
    WAITING = "waiting"
    FAILED = "failed"
    SUSPENDED = "suspended"
    UNREADABLE = "unreadable"


class Tool(StrEnum):
    """The tools that are compared."""

    GENGUARD = "genguard"
    KSTATUS = "kstatus"
    ARGO = "Argo CD"
    KUBECTL = "kubectl"


_OUTCOMES: Mapping[str, Outcome] = {
    Kstatus.CURRENT: Outcome.DONE,
    Kstatus.IN_PROGRESS: Outcome.WAITING,
    Kstatus.TERMINATING: Outcome.WAITING,
    Kstatus.FAILED: Outcome.FAILED,
    Kstatus.UNKNOWN: Outcome.UNREADABLE,
    ArgoHealth.HEALTHY: Outcome.DONE,
    ArgoHealth.PROGRESSING: Outcome.WAITING,
    ArgoHealth.DEGRADED: Outcome.FAILED,
    ArgoHealth.SUSPENDED: Outcome.SUSPENDED,
    ArgoHealth.UNKNOWN: Outcome.UNREADABLE,
    Rollout.COMPLETE: Outcome.DONE,
    Rollout.WAITING: Outcome.WAITING,
    Rollout.FAILED: Outcome.FAILED,
}


@dataclass(frozen=True, slots=True)
class Evidence:
    """One object, and the answers of the tools."""

    document: Document
    done: bool
    """The answer of genguard: ready and settled."""
    answers: Mapping[Tool, str]
    """The answers of the other tools; a tool without an answer is absent."""

    def outcome(self, tool: Tool) -> Outcome | None:
        """Return what the answer of a tool means; None when it has no answer."""
        return _OUTCOMES.get(self.answers.get(tool, ""))

    def differs(self, tool: Tool) -> bool:
        """Whether any other tool contradicts this one."""
        others = {other: self.outcome(other) for other in self.answers if other is not tool}
        if tool is Tool.GENGUARD:
            return any(self._contradicts(outcome) for outcome in others.values())
        own = self.outcome(tool)
        return own is not None and (
            self._contradicts(own) or any(outcome != own for outcome in others.values())
        )

    def _contradicts(self, outcome: Outcome | None) -> bool:
        if self.done:
            return outcome is not Outcome.DONE
        return outcome in (Outcome.DONE, Outcome.UNREADABLE)

    def at(self, field: str) -> Any:
        """Return the value of a field, such as `spec.replicas`, or ABSENT."""
        return nested_or_absent(self.document, *field.split("."))

    def number(self, operand: str | int) -> int:
        """Return a number itself or that of a field; an absent one is 0, spec.replicas then 1."""
        if isinstance(operand, int):
            return operand
        return number(self.document, *operand.split("."), default=operand == "spec.replicas")

    def conditions(self) -> list[Mapping[str, Any]]:
        """Return the items of `status.conditions` that are objects."""
        found = self.at("status.conditions")
        items = found if isinstance(found, list) else []
        return [item for item in items if isinstance(item, Mapping)]

    def of_type(self, kind: str) -> list[Mapping[str, Any]]:
        """Return the conditions of a type."""
        return [condition for condition in self.conditions() if condition.get("type") == kind]


def _has_repeated_condition(it: Evidence) -> bool:
    kinds = [str(condition.get("type")) for condition in it.conditions()]
    return len(kinds) > len(set(kinds))


def _has_stale_condition(it: Evidence) -> bool:
    generation = it.at("metadata.generation")
    observed = (condition.get("observedGeneration") for condition in it.conditions())
    return isinstance(generation, int) and any(
        isinstance(number, int) and number < generation for number in observed
    )


def _has_unusual_number(it: Evidence) -> bool:
    status = it.at("status")
    counts = [it.at("spec.replicas"), *(status.values() if isinstance(status, dict) else ())]
    return any(isinstance(count, int | float) and not is_int64(count) for count in counts)


def _container_cannot_start(it: Evidence) -> bool:
    statuses = it.at("status.containerStatuses")
    containers = [s for s in statuses if isinstance(s, dict)] if isinstance(statuses, list) else []
    reasons = [text(container, "state", "waiting", "reason") for container in containers]
    return any(r.startswith("Err") or r.endswith(("Error", "BackOff")) for r in reasons)


class Fact(StrEnum):
    """What no comparison of two fields says."""

    READY_AND_SETTLED = "ready-and-settled"
    DELETED = "deleted"
    ARGO_HOOK = "argo-hook"
    UNKNOWN_TO_KSTATUS = "unknown-to-kstatus"
    REPEATED_CONDITION = "repeated-condition"
    STALE_CONDITION = "stale-condition"
    UNUSUAL_NUMBER = "unusual-number"
    CONTAINER_CANNOT_START = "container-cannot-start"


_FACTS: Final[Mapping[Fact, Callable[[Evidence], bool]]] = {
    Fact.READY_AND_SETTLED: lambda it: it.done,
    Fact.DELETED: lambda it: text(it.document, "metadata", "deletionTimestamp") != "",
    Fact.ARGO_HOOK: lambda it: is_hook(it.document),
    Fact.UNKNOWN_TO_KSTATUS: lambda it: kind_of(it.document).name not in RULES,
    Fact.REPEATED_CONDITION: _has_repeated_condition,
    Fact.STALE_CONDITION: _has_stale_condition,
    Fact.UNUSUAL_NUMBER: _has_unusual_number,
    Fact.CONTAINER_CANNOT_START: _container_cannot_start,
}

Field = Annotated[str, msgspec.Meta(pattern=r"^(metadata|spec|status)\.")]
Operands = tuple[Field | int, Field | int]


class When(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Tests of an object; every test that is given has to hold."""

    facts: tuple[Fact, ...] = ()
    equal: tuple[Field, str | bool] | None = None
    """A field has this value."""
    absent: Field | None = None
    """A field is not in the object."""
    unset: Field | None = None
    """A field is absent or null."""
    less: Operands | None = None
    """The first number is less than the second."""
    same: Operands | None = None
    """Both numbers are the same."""
    are_true: tuple[str, ...] = ()
    """Of each of these types a condition is True."""
    has: str | None = None
    """There is a condition of this type."""
    reason: tuple[str, str] | None = None
    """The first condition of this type has this reason."""
    answer: tuple[Tool, Outcome] | None = None
    """A tool has this answer."""
    unless: "When | None" = None
    """These tests do not all hold."""

    def __post_init__(self) -> None:
        if not any(msgspec.structs.astuple(self)):
            raise ValueError("no test")

    def holds(self, it: Evidence) -> bool:
        """Whether every test holds."""
        given = ((getattr(self, name), test) for name, test in _TESTS.items())
        return all(test(it, wanted) for wanted, test in given if wanted)


def _equals(it: Evidence, wanted: tuple[str, str | bool]) -> bool:
    field, value = wanted
    found = it.at(field)
    return type(found) is type(value) and found == value


_TESTS: Final[Mapping[str, Callable[[Evidence, Any], bool]]] = {
    "facts": lambda it, facts: all(_FACTS[fact](it) for fact in facts),
    "equal": _equals,
    "absent": lambda it, field: it.at(field) is ABSENT,
    "unset": lambda it, field: it.at(field) in (ABSENT, None),
    "less": lambda it, operands: it.number(operands[0]) < it.number(operands[1]),
    "same": lambda it, operands: it.number(operands[0]) == it.number(operands[1]),
    "are_true": lambda it, kinds: all(
        any(condition.get("status") == "True" for condition in it.of_type(kind)) for kind in kinds
    ),
    "has": lambda it, kind: bool(it.of_type(kind)),
    "reason": lambda it, wanted: (
        [condition.get("reason") for condition in it.of_type(wanted[0])[:1]] == [wanted[1]]
    ),
    "answer": lambda it, wanted: it.outcome(wanted[0]) is wanted[1],
    "unless": lambda it, when: not when.holds(it),
}


class Cause(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One reason why a tool gives another answer than the others."""

    tool: Tool
    """The tool whose answer it explains: it counts only if another tool contradicts this one."""
    when: Annotated[tuple[When, ...], msgspec.Meta(min_length=1)]
    """Alternatives."""
    because: Annotated[str, msgspec.Meta(min_length=1)]
    kinds: frozenset[str] = frozenset()
    """`group/Kind`, or `Kind` for the core group; empty for every kind."""

    def explains(self, it: Evidence) -> bool:
        """Whether it is why the tools contradict each other about the object."""
        return (
            (not self.kinds or kind_of(it.document).name in self.kinds)
            and it.differs(self.tool)
            and any(when.holds(it) for when in self.when)
        )


@cache
def load_causes() -> tuple[Cause, ...]:
    """Return the rows of disagreement.yaml in their order."""
    shipped = resources.files(__package__).joinpath("disagreement.yaml").read_bytes()
    return msgspec.convert(load_document(shipped), type=tuple[Cause, ...])


def disagreement(
    document: Document,
    *,
    ready: bool | None,
    settled: bool,
    kstatus: Kstatus,
    argo: ArgoHealth | None,
    rollout: Rollout | None,
) -> str | None:
    """Return one line that says why the tools contradict each other; None when they do not.

    Answers are compared as Outcome. "Not ready" of genguard agrees with waiting, failed and
    suspended. A tool without an answer contradicts no other tool.
    """
    found = {Tool.KSTATUS: kstatus, Tool.ARGO: argo, Tool.KUBECTL: rollout}
    answers = {tool: answer for tool, answer in found.items() if answer is not None}
    it = Evidence(document, done=ready is True and settled, answers=answers)
    if not any(map(it.differs, Tool)):
        return None
    causes = (cause.because for cause in load_causes() if cause.explains(it))
    return _unreadable(it) or next(causes, None) or _list_answers(it)


def _unreadable(it: Evidence) -> str | None:
    """Name the first field that a tool could not read; None if it could read every field."""
    for tool, check in _CHECKS.items():
        if it.outcome(tool) is Outcome.UNREADABLE and it.differs(tool):
            try:
                check(it.document)
            except TypeMismatchError as error:
                return f"{tool} cannot read {error}"
    return None


_CHECKS: Final[dict[Tool, Callable[[Document], object]]] = {
    Tool.KSTATUS: lambda document: compute(document, 0.0),
    Tool.ARGO: assess,
}


def _list_answers(it: Evidence) -> str:
    answers = ", ".join(f"{tool} says {word}" for tool, word in it.answers.items())
    return f"{answers}; genguard says {'ready and settled' if it.done else 'not ready and settled'}"
