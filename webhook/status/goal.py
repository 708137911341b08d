"""What `genguard wait --for` waits for: whether an object has reached it, or never will.

Failed for good is what stays as it is until somebody acts: a rollout past its progress deadline, as
kubectl has it; a Job or Pod that ended badly; Stalled or Failed conditions of this generation; an
object that is being deleted. Of an Application, its members count as well.
"""

import re
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final, NamedTuple

from webhook.objects.shown import printable
from webhook.status.drawing import blocking, object_name
from webhook.status.forest import APPLICATION, Node
from webhook.status.judged import Judged
from webhook.status.reason import Reason
from webhook.status.view import Health, StatusView
from webhook.status.views.rollout import Rollout

_NUMBERED: Final = re.compile(r"reconciled=([0-9]{1,18})")
_GIVEN_UP: Final = frozenset({"status.conditions[Stalled]", "status.conditions[Failed]"})


class BadGoalError(Exception):
    """Nothing that can be waited for; the message says what can."""


class State(Enum):
    """How far one object is."""

    REACHED = "reached"
    WAITING = "waiting"
    FAILED = "failed"


class Goal(NamedTuple):
    """One --for, as it was written."""

    text: str
    holds: Callable[[StatusView, int | None], bool]
    """Given the view and the generation that is waited for."""
    concerns: Callable[[Reason], bool]
    generation: int | None = None
    """That of `reconciled=N`; else the one at which the wait began."""


class Progress(NamedTuple):
    """How far one object is, and what of it stands in the way."""

    state: State
    why: str = ""


def parse_goal(text: str) -> Goal:
    """Read one --for; raises BadGoalError."""
    if match := _NUMBERED.fullmatch(text):
        return Goal(text, _reconciled, _of_settled, int(match[1]))
    if text in _GOALS:
        return _GOALS[text]
    raise BadGoalError(f"{text!r} is nothing to wait for: give {', '.join(_GOALS)} or reconciled=N")


def progress(node: Node, goals: Sequence[Goal], began_at: int | None) -> Progress:
    """How far an object is towards all goals.

    began_at  the generation at which the wait began; None for kinds that keep none.
    """
    failure = _failure(node)
    if failure is not None:
        return Progress(State.FAILED, printable(failure))
    view = node.judged.view
    for goal in goals:
        generation = began_at if goal.generation is None else goal.generation
        if not goal.holds(view, generation):
            return Progress(State.WAITING, printable(_why(view, goal, generation)))
    return Progress(State.REACHED)


def _why(view: StatusView, goal: Goal, generation: int | None) -> str:
    reasons = [reason for reason in blocking(view) if goal.concerns(reason)]
    if reasons:
        more = f" (+{len(reasons) - 1} more)" if len(reasons) > 1 else ""
        return f"{reasons[0]}{more}"
    if view.settled and goal.holds is _reconciled:
        return f"metadata.generation {view.generation}, want {generation}"
    return next(map(str, view.reasons), "not known yet")


def _failure(node: Node) -> str | None:
    judged = node.judged
    own = _own_failure(judged)
    if own is not None:
        return own
    if (judged.view.group, judged.view.kind) == APPLICATION:
        for child in node.children:
            failure = _failure(child)
            if failure is not None:
                return f"{object_name(child.judged.view)}: {failure}"
    return None


def _own_failure(judged: Judged) -> str | None:
    view = judged.view
    if view.deleting:
        return "it is being deleted"
    blocked = [str(reason) for reason in view.reasons if reason.against_ready]
    if judged.rollout is Rollout.FAILED:
        return next((text for text in blocked if "[Progressing]" in text), "past its deadline")
    if view.finished and view.health is Health.RED:
        return next(iter(blocked), "it ended badly")
    given_up = (str(one) for one in view.reasons if one.path in _GIVEN_UP and one.have == "True")
    return next(given_up, None)


def _ready(view: StatusView, _: int | None) -> bool:
    return view.ready is True


def _settled(view: StatusView, _: int | None) -> bool:
    return view.settled


def _reconciled(view: StatusView, generation: int | None) -> bool:
    reached = view.reconciled_generation
    return view.settled and (generation is None or (reached is not None and reached >= generation))


def _green(view: StatusView, _: int | None) -> bool:
    return view.health is Health.GREEN


def _of_settled(reason: Reason) -> bool:
    return reason.against_settled


def _of_ready(reason: Reason) -> bool:
    return reason.against_ready


def _of_any(_: Reason) -> bool:
    return True


_GOALS: Final = {
    goal.text: goal
    for goal in (
        Goal("ready", _ready, _of_ready),
        Goal("settled", _settled, _of_settled),
        Goal("reconciled", _reconciled, _of_settled),
        Goal("health=green", _green, _of_any),
    )
}
