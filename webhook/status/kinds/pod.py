"""Pods: Ready while they run, done when they Succeeded, and what a container waits for.

Reads    status.phase, conditions Ready, PodScheduled, PodResizePending and PodResizeInProgress,
         container statuses; spec.restartPolicy.
Amends   the Ready table: phase Succeeded is enough without reason PodCompleted; Failed is not.
Source   kubernetes pkg/kubelet/status/generate.go; KEP-1287 for resizes.
"""

from collections.abc import Iterator
from typing import Any, Final

from webhook.status.conditions import TRUE, Conditions, must_be_true, read_conditions
from webhook.status.judgement import GOOD, Judgement
from webhook.status.reason import Blocks, Reason, short_word
from webhook.status.subject import Subject

_BROKEN: Final = frozenset(
    {
        "CrashLoopBackOff",
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "PostStartHookError",
        "PreCreateHookError",
        "PreStartHookError",
        "RunContainerError",
    }
)
"""Reasons to wait that seldom pass by themselves (kubernetes pkg/kubelet/images/types.go,
container/sync_result.go and kuberuntime/kuberuntime_container.go)."""
_LONGEST_LABEL: Final = 63
_RESIZES: Final = ("PodResizePending", "PodResizeInProgress")
_LISTS: Final = ("initContainerStatuses", "containerStatuses")


def judge_pod(subject: Subject) -> Judgement:
    """Settled when Ready, or, where containers are not restarted for ever, when they ended.

    Ready    condition Ready is True, or status.phase is Succeeded
    Settled  phase Succeeded or Failed; with restartPolicy Always also Ready with no resize under
             way
    """
    phase = subject.word("status", "phase")
    if phase == "Succeeded":
        return Judgement(finished=True)
    if phase == "Failed":
        why = short_word(subject.status["reason"]) if subject.status.get("reason") else ""
        reason = Reason("status.phase", phase, "Running or Succeeded", why, Blocks.READY)
        return Judgement((reason,), failed=True, finished=True)
    conditions = read_conditions(subject)
    blocked = must_be_true(conditions, "Ready", subject.generation)
    if blocked is not None:
        return _unready(subject, conditions, blocked)
    policy = subject.word("spec", "restartPolicy", "Always")
    if policy != "Always":
        note = f"restartPolicy {short_word(policy)} runs to its end"
        return Judgement(
            (Reason("status.phase", short_word(phase), "Succeeded", note, Blocks.SETTLED),)
        )
    for name in _RESIZES:
        resize = conditions.true(name)
        if resize is not None:
            return Judgement((resize.blocking("False", Blocks.SETTLED),))
    return GOOD


def _unready(subject: Subject, conditions: Conditions, blocked: Reason) -> Judgement:
    """The cause, where status tells one, before the condition that follows from it."""
    scheduled = conditions.get("PodScheduled")
    if scheduled is not None and scheduled.status != TRUE:
        late = subject.overdue(subject.metadata.get("creationTimestamp"))
        return Judgement((scheduled.blocking(TRUE),), broken=late)
    waiting = list(_not_running(subject.status))
    broken = any(reason.have in _BROKEN for reason in waiting)
    return Judgement((*waiting, blocked), broken=broken)


def _not_running(status: dict[str, Any]) -> Iterator[Reason]:
    """`status.containerStatuses[web].state.waiting CrashLoopBackOff, want running`."""
    for key in _LISTS:
        items = status.get(key)
        for index, item in enumerate(items if isinstance(items, list) else ()):
            state = item.get("state") if isinstance(item, dict) else None
            for how in ("waiting", "terminated"):
                found = state.get(how) if isinstance(state, dict) else None
                reason = found.get("reason") if isinstance(found, dict) else None
                if reason and reason != "Completed":
                    path = f"status.{key}[{_place(item, index)}].state.{how}"
                    yield Reason(path, short_word(reason), "running")


def _place(item: dict[str, Any], index: int) -> str:
    """A container's name, or its position where the name is no DNS label."""
    name = item.get("name")
    is_label = isinstance(name, str) and name.isascii() and name.replace("-", "").isalnum()
    return str(name) if is_label and len(str(name)) <= _LONGEST_LABEL else str(index)
