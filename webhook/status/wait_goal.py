"""What `genguard wait --for` waits for: which objects have reached their goals or never will.

An object has failed for good when it stays as it is until somebody acts: a rollout past its
progress deadline (as in kubectl); a Job or Pod that ended with an error; Stalled or Failed
conditions for the current generation; an object that is being deleted. An Application also fails
when one of its members failed.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

from webhook.objects.shown import printable
from webhook.status.assessment import Assessment
from webhook.status.drawing import blocking_reasons, object_name, shorten
from webhook.status.targets import WatchTarget
from webhook.status.trees import APPLICATION, Node
from webhook.status.view import Health, Reason, StatusView
from webhook.status.views.rollout import Rollout

_NUMBERED: Final = re.compile(r"reconciled=([0-9]{1,18})")
_FAILURE_CONDITIONS: Final = frozenset({"status.conditions[Stalled]", "status.conditions[Failed]"})


class BadGoalError(Exception):
    """The text after --for is not a goal; the message lists the goals."""


class WaitState(Enum):
    """Whether the wait for one object is over."""

    REACHED = "reached"
    WAITING = "waiting"
    FAILED = "failed"


class Goal(NamedTuple):
    """One value of --for."""

    text: str
    """As the user wrote it."""
    holds: Callable[[StatusView, int | None], bool]
    """Called with the view and the generation to wait for."""
    concerns: Callable[[Reason], bool]
    """Whether a reason keeps this goal from being reached."""
    generation: int | None = None
    """N of `reconciled=N`; None: the generation at the start of the wait."""


class WaitProgress(NamedTuple):
    """How far one object is, and what blocks it."""

    name: str
    """`Deployment/web`, or the target while there is no such object."""
    state: WaitState
    why: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.why}" if self.why else self.name


class WaitTracker:
    """Follows a wait. Remembers at which generation it began for each object, and what existed."""

    def __init__(self, targets: Sequence[WatchTarget], goals: Sequence[Goal]) -> None:
        self._targets: Final = targets
        self._goals: Final = goals
        self._first_generation: Final[dict[str, int | None]] = {}
        self._existed: Final[set[WatchTarget]] = set()

    def update(
        self, roots: Sequence[Node], uids_by_target: Mapping[WatchTarget, frozenset[str]]
    ) -> list[WaitProgress]:
        """Return the progress of every target, also of named objects that do not exist yet.

        A kind or selector that matches nothing blocks only when no other target matches anything.
        """
        nodes = {node.assessment.view.uid: node for root in roots for node in root.walk()}
        found: dict[str, WaitProgress] = {}
        absent: list[WaitProgress] = []
        for target in self._targets:
            uids = uids_by_target[target]
            if target.name and not uids:
                absent.append(self._absent(target))
            if uids:
                self._existed.add(target)
            found |= {uid: self._measure(uid, nodes[uid]) for uid in uids}
        if not found and not absent:
            nothing = "no object matches yet"
            absent = [
                WaitProgress(str(target), WaitState.WAITING, nothing) for target in self._targets
            ]
        return [*absent, *sorted(found.values(), key=lambda progress: progress.name)]

    def _absent(self, target: WatchTarget) -> WaitProgress:
        if target in self._existed:
            return WaitProgress(str(target), WaitState.FAILED, "it was deleted")
        return WaitProgress(str(target), WaitState.WAITING, "it does not exist yet")

    def _measure(self, uid: str, node: Node) -> WaitProgress:
        generation = node.assessment.view.generation
        return measure_progress(
            node, self._goals, self._first_generation.setdefault(uid, generation)
        )


def parse_goal(text: str) -> Goal:
    """Read one value of --for; raises BadGoalError."""
    if match := _NUMBERED.fullmatch(text):
        return Goal(text, _is_reconciled, _blocks_settled, int(match[1]))
    if text in _GOALS:
        return _GOALS[text]
    raise BadGoalError(f"{text!r} is not a goal: give {', '.join(_GOALS)} or reconciled=N")


def measure_progress(
    node: Node, goals: Sequence[Goal], first_generation: int | None
) -> WaitProgress:
    """Return how far an object is towards all goals.

    first_generation  metadata.generation when the wait began; None for kinds without one.
    """
    view = node.assessment.view
    name = object_name(view)
    failure = _find_failure(node)
    if failure is not None:
        return WaitProgress(name, WaitState.FAILED, printable(failure))
    for goal in goals:
        generation = first_generation if goal.generation is None else goal.generation
        if not goal.holds(view, generation):
            why = printable(_explain_waiting(view, goal, generation))
            return WaitProgress(name, WaitState.WAITING, why)
    return WaitProgress(name, WaitState.REACHED)


def _explain_waiting(view: StatusView, goal: Goal, generation: int | None) -> str:
    reasons = [reason for reason in blocking_reasons(view) if goal.concerns(reason)]
    if reasons:
        return shorten(reasons)
    if view.settled and goal.holds is _is_reconciled:
        return f"metadata.generation {view.generation}, want {generation}"
    return next(map(str, view.reasons), "its status is not known yet")


def _find_failure(node: Node) -> str | None:
    """Return why the object, or a member of the Application, has failed for good; None if not."""
    failure = _find_own_failure(node.assessment)
    if failure is not None:
        return failure
    if (node.assessment.view.group, node.assessment.view.kind) == APPLICATION:
        for child in node.children:
            failure = _find_failure(child)
            if failure is not None:
                return f"{object_name(child.assessment.view)}: {failure}"
    return None


def _find_own_failure(assessment: Assessment) -> str | None:
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


def _is_ready(view: StatusView, _: int | None) -> bool:
    return view.ready is True


def _is_settled(view: StatusView, _: int | None) -> bool:
    return view.settled


def _is_reconciled(view: StatusView, generation: int | None) -> bool:
    reached = view.reconciled_generation
    return view.settled and (generation is None or (reached is not None and reached >= generation))


def _is_green(view: StatusView, _: int | None) -> bool:
    return view.health is Health.GREEN


def _blocks_settled(reason: Reason) -> bool:
    return reason.against_settled


def _blocks_ready(reason: Reason) -> bool:
    return reason.against_ready


def _any_reason(_: Reason) -> bool:
    return True


_GOALS: Final = {
    goal.text: goal
    for goal in (
        Goal("ready", _is_ready, _blocks_ready),
        Goal("settled", _is_settled, _blocks_settled),
        Goal("reconciled", _is_reconciled, _blocks_settled),
        Goal("health=green", _is_green, _any_reason),
    )
}
