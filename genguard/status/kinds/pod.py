"""Pods: ready while they run, or when they have succeeded; reasons name the container.

Reads    status.phase, conditions Ready, PodScheduled, PodResizePending and PodResizeInProgress,
         container statuses; spec.restartPolicy.
Amends   the Ready table: phase Succeeded is enough without reason PodCompleted; Failed is not.
"""

from collections.abc import Iterator
from typing import Any, Final

from genguard.objects.fields import ABSENT, get, items
from genguard.status.checked_object import CheckedObject, Conditions
from genguard.status.kind_rule import NOTHING_BLOCKS, KindResult, KindRule, KindRules
from genguard.status.names import NAMES
from genguard.status.pod_images import container_key
from genguard.status.view import Blocks, Reason, short_word

_NOTE: Final = "its restartPolicy is not Always, so it runs to its end"
_RESIZES: Final = ("PodResizePending", "PodResizeInProgress")
_LISTS: Final = ("initContainerStatuses", "containerStatuses")


def evaluate_pod(obj: CheckedObject) -> KindResult:
    """Require Ready; a pod that does not restart its containers is settled when they have ended.

    Operators of databases run such pods too, and start them again themselves.
    """
    phase = obj.word("status", "phase")
    if phase == "Succeeded":
        return KindResult(finished=True)
    if phase == "Failed":
        why = short_word(obj.status["reason"]) if obj.status.get("reason") else ""
        reason = Reason("status.phase", phase, "Running or Succeeded", why, Blocks.READY)
        return KindResult((reason,), failed=True, finished=True)
    conditions = obj.conditions()
    blocked = conditions.why_not_true("Ready", obj.generation)
    if blocked is not None:
        return _explain_unready(obj, conditions, blocked)
    policy = obj.word("spec", "restartPolicy", "Always")
    if policy != "Always" and not _is_kept_running(obj):
        return KindResult(
            (Reason("status.phase", short_word(phase), "Succeeded", _NOTE, Blocks.SETTLED),)
        )
    for name in _RESIZES:
        resize = conditions.true(name)
        if resize is not None:
            return KindResult((resize.blocking("False", Blocks.SETTLED),))
    return NOTHING_BLOCKS


_RUNS: Final = ("Job", "Run", "Runner", "Task", "Workflow", "SparkApplication", "Experiment")
"""What the kinds end with whose pods have an end; other owners keep theirs running."""


def _is_kept_running(obj: CheckedObject) -> bool:
    """Whether an operator keeps the pod running, and makes it again itself."""
    owners = items(obj.metadata.get("ownerReferences"))
    kinds = [get(owner, "kind") for owner in owners if get(owner, "controller") is True]
    return any(isinstance(kind, str) and not kind.endswith(_RUNS) for kind in kinds)


def _explain_unready(obj: CheckedObject, conditions: Conditions, blocked: Reason) -> KindResult:
    """Return the cause, if status shows it, before the condition that follows from it."""
    scheduled = conditions.get("PodScheduled")
    if scheduled is not None and scheduled.status != "True":
        late = obj.overdue(obj.metadata.get("creationTimestamp"))
        return KindResult((scheduled.blocking("True"),), broken=late)
    waiting = list(_find_not_running(obj.status))
    broken = any(reason.have in NAMES["broken containers"] for reason in waiting)
    return KindResult((*waiting, blocked), broken=broken)


def _find_not_running(status: dict[str, Any]) -> Iterator[Reason]:
    """Yield `status.containerStatuses[web].state.waiting CrashLoopBackOff, want running`."""
    for key in _LISTS:
        for index, item in enumerate(items(status.get(key))):
            for how in ("waiting", "terminated"):
                reason = get(item, "state", how, "reason")
                if reason and reason not in (ABSENT, "Completed"):
                    path = f"status.{key}[{container_key(item, index)}].state.{how}"
                    yield Reason(path, short_word(reason), "running")


RULES: Final[KindRules] = {("", "Pod"): KindRule(evaluate_pod)}
