"""What is normal while the old pods of a Deployment terminate: spec.podReplacementPolicy.

| policy (KEP-5882)    | new pods                                                                 |
|----------------------|--------------------------------------------------------------------------|
| TerminationComplete  | wait: pods, terminating ones too, are spec.replicas + maxSurge at most   |
| TerminationStarted   | do not wait, with strategy Recreate neither                              |
| not set              | wait in a rollout with strategy Recreate, else do not                    |

So a rollout that waits has fewer pods than spec.replicas, and nothing is wrong; and with
TerminationStarted more pods may run than spec.replicas + maxSurge. Terminating pods have as long as
their grace period. A server without the field drops it, and behaves as if it were not set.

Reads   spec.podReplacementPolicy, replicas, strategy, template.spec.terminationGracePeriodSeconds;
        status.replicas, updatedReplicas, terminatingReplicas. What is unreadable counts as not set.
Source  KEP-5882, Design Details; kubernetes pkg/controller/deployment/util/deployment_util.go:
        MaxSurge, ResolveFenceposts; pkg/apis/apps/v1/defaults.go.
"""

import re
from typing import Any, Final, NamedTuple

from genguard.objects.fields import get
from genguard.status.checked_object import DEFAULT_DEADLINE, CheckedObject, WrongTypeError
from genguard.status.terminating_pods import POLICIES, STARTS_AT_ONCE, WAITS_FOR_OLD_PODS

_DEFAULT_GRACE: Final = 30
_DEFAULT_SHARE: Final = "25%"
_PERCENT: Final = re.compile(r"[0-9]{1,9}%")
STOPS_WITHIN: Final = re.compile(r"up to ([0-9]{1,9}) s to stop")
"""In the text of a reason: how long nothing but the end of pods may be waited for."""


class PodReplacement(NamedTuple):
    """What holds for one Deployment or ReplicaSet now."""

    completes_later: bool
    """Its controller calls a rollout complete only when the old pods are gone."""
    waits_because: str
    """Why no new pod is started until old ones have stopped; "" where nothing waits."""
    patience: float
    """Seconds beyond every deadline for which too few pods are normal."""


def read_replacement(obj: CheckedObject) -> PodReplacement:
    """Return what holds for a Deployment."""
    policy = obj.spec.get("podReplacementPolicy")
    known = policy if isinstance(policy, str) and policy in POLICIES else ""
    terminating = _count(obj.status.get("terminatingReplicas"), 0)
    why = _why_waiting(obj, known, terminating)
    later = known == WAITS_FOR_OLD_PODS and terminating > 0
    return PodReplacement(later, why, float(read_grace(obj)) if why else 0.0)


def read_grace(obj: CheckedObject) -> int:
    """Return the grace period of a workload's pods, in seconds."""
    given = get(obj.spec, "template", "spec", "terminationGracePeriodSeconds")
    return _count(given, _DEFAULT_GRACE)


def say_grace(seconds: int) -> str:
    """Say how long pods have to stop, where it is longer than other work may take; else ""."""
    return f"up to {seconds} s to stop" if seconds > DEFAULT_DEADLINE else ""


def most_pods(obj: CheckedObject) -> int | None:
    """Return spec.replicas + maxSurge: how many pods that do not terminate there may be.

    None where it cannot be read. Unless the policy is TerminationComplete, the controller leaves
    terminating pods out of account, so there may be more pods than this (KEP-3973). maxSurge is 25%
    by default, and rounded up (kubernetes pkg/apis/apps/v1/defaults.go,
    pkg/controller/deployment/util: ResolveFenceposts).
    """
    return _fenceposts(obj)[1]


def fewest_pods(obj: CheckedObject) -> int | None:
    """Return spec.replicas - maxUnavailable: how few pods a rolling update may leave.

    None where it cannot be read, and with another strategy. maxUnavailable is 25% by default, and
    rounded down; 1 if it and maxSurge are both 0 (see most_pods()).
    """
    return _fenceposts(obj)[0]


def _fenceposts(obj: CheckedObject) -> tuple[int | None, int | None]:
    try:
        desired = obj.desired()
        if (obj.inner("spec", "strategy").get("type") or "RollingUpdate") != "RollingUpdate":
            return None, desired
        rolling = obj.inner("spec", "strategy", "rollingUpdate")
    except WrongTypeError:
        return None, None
    surge = _pods(rolling.get("maxSurge"), -desired)
    allowed = _pods(rolling.get("maxUnavailable"), desired)
    if surge is None:
        return None, None
    return (
        None if allowed is None else max(0, desired - (allowed if allowed or surge else 1)),
        desired + surge,
    )


def _pods(given: Any, desired: int) -> int | None:
    """Return a number of pods, or the share of `desired`, rounded down; of -`desired`, up."""
    given = _DEFAULT_SHARE if given is None else given
    if isinstance(given, str):
        given = abs(desired * int(given[:-1]) // 100) if _PERCENT.fullmatch(given) else None
    return given if type(given) is int and given >= 0 else None


def note_terminating(obj: CheckedObject) -> list[str]:
    """Say what terminating pods mean for a workload, by its policy and grace period."""
    policy = obj.spec.get("podReplacementPolicy")
    notes = []
    if allowed := say_grace(read_grace(obj)):
        notes.append(f"pods have {allowed}")
    if policy == WAITS_FOR_OLD_PODS:
        notes.append("podReplacementPolicy TerminationComplete: the rollout ends with them")
    elif policy == STARTS_AT_ONCE:
        notes.append(
            "podReplacementPolicy TerminationStarted: they run beside the pods of spec.replicas"
        )
    return notes


def _why_waiting(obj: CheckedObject, policy: str, terminating: int) -> str:
    if not terminating:
        return ""
    desired = _count(obj.spec.get("replicas"), 1)
    replicas = _count(obj.status.get("replicas"), 0)
    updated = _count(obj.status.get("updatedReplicas"), 0)
    if updated >= desired:
        return ""
    recreates = get(obj.spec, "strategy", "type") == "Recreate"
    if recreates and not updated and policy != STARTS_AT_ONCE:
        cause = f"podReplacementPolicy {policy}" if policy else "strategy Recreate"
    elif (
        policy == WAITS_FOR_OLD_PODS
        and (most := most_pods(obj)) is not None
        and replicas + terminating >= most
    ):
        cause = f"podReplacementPolicy {policy}"
    else:
        return ""
    why = f"{cause}: new pods wait until {terminating} terminating have stopped"
    allowed = say_grace(read_grace(obj))
    return f"{why}, which have {allowed}" if allowed else why


def _count(value: Any, default: int) -> int:
    return value if type(value) is int and value >= 0 else default
