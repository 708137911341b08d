"""What `genguard wait --for` waits for: which objects have reached their goals or never will.

With the goals condition=TYPE and delete, which mean what they mean to kubectl, only one thing is a
failure: the deletion of an object whose condition is waited for.

An object has failed for good when it stays as it is until somebody acts: a rollout past its
progress deadline (as in kubectl); a Job or Pod that ended with an error; Stalled or Failed
conditions for the current generation; an object that is being deleted.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Any, Final, NamedTuple

from genguard.objects.fields import get, items
from genguard.objects.shown import printable
from genguard.status.assessment import Assessment
from genguard.status.drawing import blocking_reasons, object_name, shorten
from genguard.status.standard_fields import APPLICATION_QUALIFIED, TRAFFIC_READY
from genguard.status.targets import WatchTarget
from genguard.status.trees import Node
from genguard.status.view import Health, Reason, short_word
from genguard.status.views.rollout import Rollout

_CONDITION: Final = re.compile(r"condition=([^=]+)(?:=(.*))?", re.DOTALL)
_NUMBERED: Final = re.compile(r"reconciled=([0-9]{1,18})")
_MOST_FINALIZERS: Final = 3
_FAILURE_CONDITIONS: Final = frozenset(
    f"{section}.conditions[{name}]"
    for section in ("status", "status.meta", "metadata.status")
    for name in ("Stalled", "Failed")
)


class BadGoalError(Exception):
    """The text after --for is not a goal; the message lists the goals."""


class WaitState(Enum):
    """Whether the wait for one object is over."""

    REACHED = "reached"
    WAITING = "waiting"
    FAILED = "failed"


class Goal(NamedTuple):
    """One value of --for.

    holds       called with the object and the generation to wait for
    concerns    whether a reason keeps this goal from being reached
    generation  N of `reconciled=N`; None: the generation at the start of the wait
    condition   type and status of `condition=TYPE=STATUS`, which are compared in any case
    probe       the condition of an external probe, that the objects below it may carry as well
    """

    text: str
    holds: Callable[[Assessment, int | None], bool]
    concerns: Callable[[Reason], bool] = lambda _: True
    generation: int | None = None
    condition: tuple[str, str] | None = None
    probe: str = ""

    @property
    def is_deletion(self) -> bool:
        """Whether the object is to be gone: it holds for no object that exists."""
        return self.text == "delete"


class WaitProgress(NamedTuple):
    """How far one object is, and what blocks it."""

    name: str
    """`Deployment/web`, or the target while there is no such object."""
    state: WaitState
    why: str = ""
    uid: str = ""
    """Of the object; "" where there is none."""

    def __str__(self) -> str:
        return f"{self.name}: {self.why}" if self.why else self.name


class WaitTracker:
    """Follows a wait. Remembers at which generation it began for each object, and what existed."""

    def __init__(self, targets: Sequence[WatchTarget], goals: Sequence[Goal]) -> None:
        self._targets: Final = targets
        self._goals: Final = goals
        self._first_generation: Final[dict[str, int | None]] = {}
        self._existed: Final[set[WatchTarget]] = set()
        self._deletes: Final = any(goal.is_deletion for goal in goals)
        self._to_delete: Final[dict[WatchTarget, frozenset[str]]] = {}

    def update(
        self, roots: Sequence[Node], uids_by_target: Mapping[WatchTarget, frozenset[str]]
    ) -> list[WaitProgress]:
        """Return the progress of every target, also of named objects that do not exist yet.

        A kind or selector that matches nothing blocks only when no other target matches anything.
        """
        nodes = {node.assessment.view.uid: node for root in roots for node in root.walk()}
        if self._deletes:
            return self._update_deletion(nodes, uids_by_target)
        found: dict[str, WaitProgress] = {}
        absent: list[WaitProgress] = []
        for target in self._targets:
            uids = uids_by_target[target]
            if target.name and not uids:
                absent.append(self._absent(target))
            if uids:
                self._existed.add(target)
            for uid in uids:
                now = nodes[uid].assessment.view.generation
                first = self._first_generation.setdefault(uid, now)
                found[uid] = measure_progress(nodes[uid], self._goals, first)
        if not found and not absent:
            nothing = "no object matches yet"
            absent = [
                WaitProgress(str(target), WaitState.WAITING, nothing) for target in self._targets
            ]
        return [*absent, *sorted(found.values(), key=lambda progress: progress.name)]

    def _update_deletion(
        self, nodes: Mapping[str, Node], uids_by_target: Mapping[WatchTarget, frozenset[str]]
    ) -> list[WaitProgress]:
        """Wait for the objects that existed at the first look, as kubectl does.

        An object of the same name that is created meanwhile is another one.
        """
        progress = []
        for target in self._targets:
            first = self._to_delete.setdefault(target, uids_by_target[target])
            left = first & uids_by_target[target]
            progress += [measure_progress(nodes[uid], self._goals, None) for uid in sorted(left)]
            if not left:
                progress.append(WaitProgress(str(target), WaitState.REACHED))
        return progress

    def _absent(self, target: WatchTarget) -> WaitProgress:
        if target in self._existed:
            return WaitProgress(str(target), WaitState.FAILED, "it was deleted")
        return WaitProgress(str(target), WaitState.WAITING, "it does not exist yet")


def parse_goal(text: str) -> Goal:
    """Read one value of --for; raises BadGoalError."""
    if match := _NUMBERED.fullmatch(text):
        return _GOALS["reconciled"]._replace(text=text, generation=int(match[1]))
    if match := _CONDITION.fullmatch(text):
        wanted = match[1], match[2] or "true"
        return Goal(text, partial(_has_condition, wanted), condition=wanted)
    if text in _GOALS:
        return _GOALS[text]
    known = ", ".join(_GOALS)
    raise BadGoalError(
        f"{text!r} is not a goal: give {known}, reconciled=N or condition=TYPE[=STATUS]"
    )


def parse_goals(texts: Sequence[str]) -> tuple[Goal, ...]:
    """Read all values of --for; raises BadGoalError."""
    goals = tuple(map(parse_goal, texts))
    if len(goals) > 1 and any(goal.is_deletion for goal in goals):
        raise BadGoalError("delete is a goal of its own: leave out the other goals")
    return goals


def measure_progress(
    node: Node, goals: Sequence[Goal], first_generation: int | None
) -> WaitProgress:
    """Return how far an object is towards all goals.

    first_generation  metadata.generation when the wait began; None for kinds without one.
    """
    view = node.assessment.view
    name = object_name(view)
    is_as_kubectl = all(goal.condition is not None or goal.is_deletion for goal in goals)
    failure = None if is_as_kubectl else _find_failure(node.assessment)
    if failure is not None:
        return WaitProgress(name, WaitState.FAILED, printable(failure), view.uid)
    for goal in goals:
        generation = first_generation if goal.generation is None else goal.generation
        if not goal.holds(node.assessment, generation):
            why = printable(_explain_waiting(node.assessment, goal, generation))
            return WaitProgress(name, WaitState.WAITING, why, view.uid)
    return WaitProgress(name, WaitState.REACHED, uid=view.uid)


def _explain_waiting(assessment: Assessment, goal: Goal, generation: int | None) -> str:
    view = assessment.view
    if goal.is_deletion:
        return _explain_deletion(assessment)
    if goal.condition is not None:
        return _explain_condition(assessment, goal.condition)
    if goal.probe:
        said = view.traffic_ready if goal.probe == TRAFFIC_READY else view.application_qualified
        return f"{goal.probe} is {'not set for this generation' if said is None else 'False'}"
    reasons = [reason for reason in blocking_reasons(view) if goal.concerns(reason)]
    if reasons:
        return shorten(reasons)
    if view.settled and goal.holds is _is_reconciled:
        return f"metadata.generation {view.generation}, want {generation}"
    return next(map(str, view.reasons), "its status is not known yet")


def _explain_deletion(assessment: Assessment) -> str:
    if not assessment.view.deleting:
        return "metadata.deletionTimestamp absent: nobody has deleted it"
    names = items(get(assessment.document, "metadata", "finalizers"))
    held = ", ".join(str(name) for name in names[:_MOST_FINALIZERS])
    return f"metadata.finalizers {held}" if held else "metadata.deletionTimestamp set, want gone"


def _explain_condition(assessment: Assessment, wanted: tuple[str, str]) -> str:
    path = f"status.conditions[{wanted[0]}]"
    found = _find_condition(assessment, wanted[0])
    if found is None:
        return f"{path} absent, want {wanted[1]}"
    have = get(found, "status")
    observed = _observed_at(assessment, found)
    if _is_same(have, wanted[1]) and observed is not None:
        return f"{path} is of generation {observed}, want {assessment.view.generation}"
    return f"{path} {short_word(have)}, want {wanted[1]}"


def _has_condition(wanted: tuple[str, str], assessment: Assessment, _: int | None) -> bool:
    """As kubectl pkg/cmd/wait/condition.go:checkCondition; an old observation does not count."""
    found = _find_condition(assessment, wanted[0])
    if found is None or not _is_same(get(found, "status"), wanted[1]):
        return False
    generation, observed = assessment.view.generation, _observed_at(assessment, found)
    return generation is None or observed is None or observed >= generation


def _find_condition(assessment: Assessment, name: str) -> Any:
    conditions = get(assessment.document, "status", "conditions")
    found = (condition for condition in items(conditions) if _is_same(get(condition, "type"), name))
    return next(found, None)


def _observed_at(assessment: Assessment, condition: Any) -> int | None:
    """Return the generation that a condition is about, else that of the whole status."""
    for section in (condition, get(assessment.document, "status")):
        observed = get(section, "observedGeneration")
        if isinstance(observed, int):
            return observed
    return None


def _is_same(have: Any, want: str) -> bool:
    return isinstance(have, str) and have.casefold() == want.casefold()


def _find_failure(assessment: Assessment) -> str | None:
    """Return why the object has failed for good; None if it has not."""
    view = assessment.view
    if view.deleting:
        return "it is being deleted"
    blocked = [str(reason) for reason in view.reasons if reason.against_ready]
    if assessment.rollout is Rollout.FAILED:
        overdue = (text for text in blocked if "[Progressing]" in text)
        return next(overdue, "the rollout is past its progress deadline")
    if view.finished and view.health is Health.RED:
        return next(iter(blocked), "it ended with an error")
    failed = (
        str(reason)
        for reason in view.reasons
        if reason.path in _FAILURE_CONDITIONS and reason.have == "True"
    )
    return next(failed, None)


def _is_reconciled(assessment: Assessment, generation: int | None) -> bool:
    view = assessment.view
    reached = view.reconciled_generation
    return view.settled and (generation is None or (reached is not None and reached >= generation))


_GOALS: Final = {
    goal.text: goal
    for goal in (
        Goal("ready", lambda it, _: it.view.ready is True, lambda reason: reason.against_ready),
        Goal("settled", lambda it, _: it.view.settled, lambda reason: reason.against_settled),
        Goal("reconciled", _is_reconciled, lambda reason: reason.against_settled),
        Goal("health=green", lambda it, _: it.view.health is Health.GREEN),
        Goal("traffic-ready", lambda it, _: it.view.traffic_ready is True, probe=TRAFFIC_READY),
        Goal(
            "qualified",
            lambda it, _: it.view.application_qualified is True,
            probe=APPLICATION_QUALIFIED,
        ),
        Goal("delete", lambda _, __: False),
    )
}
