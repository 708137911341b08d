"""Explains in one line why genguard, kstatus, Argo CD and kubectl disagree about an object.

The causes are a table: the first cause that holds and explains one of the contradicting tools is
the answer. Source: the rules of the tools, cited in the other modules of this folder.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

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

    def text(self, *path: str) -> str:
        """Return the string at a path, or ""."""
        return text(self.document, *path)

    def count(self, field: str) -> int:
        """Return a number of `status`, or 0."""
        return number(self.document, "status", field)

    def desired(self) -> int:
        """Return `spec.replicas`, 1 when absent."""
        return number(self.document, "spec", "replicas", default=1)

    def at(self, *path: str) -> Any:
        """Return the value at a path, or ABSENT."""
        return nested_or_absent(self.document, *path)

    def condition(self, kind: str) -> Mapping[str, Any]:
        """Return the first condition of a type, or {}."""
        found = (c for c in self.conditions() if c.get("type") == kind)
        return next(found, {})

    def true(self, kind: str) -> bool:
        """Whether a condition of that type is True."""
        found = (c for c in self.conditions() if c.get("type") == kind)
        return any(condition.get("status") == "True" for condition in found)

    def conditions(self) -> list[Mapping[str, Any]]:
        """Return the items of `status.conditions` that are objects."""
        found = self.at("status", "conditions")
        items = found if isinstance(found, list) else []
        return [item for item in items if isinstance(item, Mapping)]

    def observed(self) -> bool:
        """Whether `status.observedGeneration` is present, with any value."""
        return self.at("status", "observedGeneration") is not ABSENT

    def lag(self) -> int:
        """Return `metadata.generation` minus `status.observedGeneration`; absent counts as 0."""
        return number(self.document, "metadata", "generation") - self.count("observedGeneration")


class Cause(NamedTuple):
    """One reason why a tool gives another answer than the others."""

    kinds: frozenset[str]
    """`group/Kind`, or `Kind` for the core group; empty for every kind."""
    tool: Tool
    """The tool whose answer it explains: it counts only if another tool contradicts this one."""
    holds: Callable[[Evidence], bool]
    because: str


_EVERY_KIND: Final[frozenset[str]] = frozenset()


def _deleted(it: Evidence) -> bool:
    return it.text("metadata", "deletionTimestamp") != ""


def _stale_condition(it: Evidence) -> bool:
    generation = it.at("metadata", "generation")
    observed = (condition.get("observedGeneration") for condition in it.conditions())
    return isinstance(generation, int) and any(
        isinstance(number, int) and number < generation for number in observed
    )


def _repeated_condition(it: Evidence) -> bool:
    kinds = [str(condition.get("type")) for condition in it.conditions()]
    return len(kinds) > len(set(kinds))


def _has_no_rule(it: Evidence) -> bool:
    return kind_of(it.document).name not in RULES


def _is_current(it: Evidence) -> bool:
    return it.outcome(Tool.KSTATUS) is Outcome.DONE


_BEFORE: Final = (
    Cause(
        _EVERY_KIND,
        Tool.ARGO,
        lambda it: _deleted(it) and is_hook(it.document),
        "it is being deleted, which Argo CD ignores for objects with its hook finalizer",
    ),
    Cause(
        _EVERY_KIND,
        Tool.KUBECTL,
        _deleted,
        "it is being deleted, which kubectl rollout status ignores",
    ),
    Cause(
        _EVERY_KIND,
        Tool.KSTATUS,
        _deleted,
        "it is being deleted, and kstatus then checks nothing else",
    ),
    Cause(
        _EVERY_KIND,
        Tool.KSTATUS,
        lambda it: it.observed() and it.lag() < 0,
        "status.observedGeneration is ahead of metadata.generation: kstatus wants them equal, "
        "Argo CD and kubectl accept it",
    ),
    Cause(
        _EVERY_KIND,
        Tool.KSTATUS,
        lambda it: it.observed() and it.lag() > 0,
        "status.observedGeneration is behind metadata.generation: kstatus waits for every "
        "kind, Argo CD and kubectl only for workloads",
    ),
    Cause(
        _EVERY_KIND,
        Tool.KSTATUS,
        lambda it: it.true("Reconciling"),
        "kstatus uses the condition Reconciling, which Argo CD and kubectl ignore",
    ),
    Cause(
        _EVERY_KIND,
        Tool.KSTATUS,
        lambda it: it.true("Stalled"),
        "kstatus uses the condition Stalled, which Argo CD and kubectl ignore",
    ),
    Cause(
        _EVERY_KIND,
        Tool.GENGUARD,
        lambda it: not it.done and it.count("terminatingReplicas") > 0,
        "status.terminatingReplicas: pods are still terminating, which every other tool ignores",
    ),
)
"""Asked before the causes of the kind."""

_AFTER: Final = (
    Cause(
        _EVERY_KIND,
        Tool.ARGO,
        lambda it: it.outcome(Tool.ARGO) is Outcome.UNREADABLE,
        "Argo CD does not know this status.phase",
    ),
    Cause(
        _EVERY_KIND,
        Tool.KSTATUS,
        _repeated_condition,
        "a condition type occurs more than once: kstatus reads all of them, Argo CD and kubectl "
        "the first",
    ),
    Cause(
        _EVERY_KIND,
        Tool.KSTATUS,
        lambda it: _has_no_rule(it) and _is_current(it) and _stale_condition(it),
        "a condition is of an older generation: kstatus ignores the observedGeneration of a "
        "condition",
    ),
    Cause(
        _EVERY_KIND,
        Tool.KSTATUS,
        lambda it: _has_no_rule(it) and bool(it.condition("Ready")),
        "kstatus has no rule for this kind and uses only the condition Ready",
    ),
    Cause(
        _EVERY_KIND,
        Tool.KSTATUS,
        lambda it: _has_no_rule(it) and _is_current(it),
        "kstatus has no rule for this kind, and without the conditions Ready, Reconciling and "
        "Stalled an object is Current for it",
    ),
)
"""Asked when no cause of the kind explains it."""


_DEPLOYMENT: Final = frozenset({"apps/Deployment", "extensions/Deployment"})
_REPLICA_SET: Final = frozenset({"apps/ReplicaSet", "extensions/ReplicaSet"})
_STATEFUL_SET: Final = frozenset({"apps/StatefulSet"})
_DAEMON_SET: Final = frozenset({"apps/DaemonSet", "extensions/DaemonSet"})
_SETS: Final = _STATEFUL_SET | _DAEMON_SET


def _has_unusual_number(it: Evidence) -> bool:
    status = it.at("status")
    counts = [it.at("spec", "replicas"), *(status.values() if isinstance(status, dict) else ())]
    return any(isinstance(count, int | float) and not is_int64(count) for count in counts)


_WORKLOADS: Final = (
    Cause(
        _DEPLOYMENT,
        Tool.ARGO,
        lambda it: it.at("spec", "paused") is True,
        "it is paused: Argo CD always says Suspended, kubectl uses only the replicas, kstatus "
        "also the condition Progressing",
    ),
    Cause(
        _DEPLOYMENT | _REPLICA_SET | _STATEFUL_SET,
        Tool.KSTATUS,
        lambda it: not it.observed(),
        "status.observedGeneration is absent: kstatus ignores that, Argo CD and kubectl read it "
        "as 0",
    ),
    Cause(
        _DAEMON_SET,
        Tool.KSTATUS,
        lambda it: not it.observed() or it.at("metadata", "generation") is ABSENT,
        "kstatus waits until a DaemonSet has both generation and observedGeneration; Argo CD and "
        "kubectl read an absent one as 0",
    ),
    Cause(
        _STATEFUL_SET,
        Tool.ARGO,
        lambda it: it.count("observedGeneration") == 0,
        "status.observedGeneration is 0: for Argo CD and kubectl the StatefulSet is not observed",
    ),
    Cause(
        _DEPLOYMENT | _REPLICA_SET | _STATEFUL_SET,
        Tool.KSTATUS,
        lambda it: it.at("spec", "replicas") in (ABSENT, None),
        "spec.replicas is absent: kstatus reads it as 1, Argo CD and kubectl require nothing",
    ),
    Cause(
        _DEPLOYMENT,
        Tool.KSTATUS,
        lambda it: it.count("replicas") > it.desired(),
        "more replicas than spec.replicas: kstatus waits until the surplus has ended, Argo CD "
        "and kubectl only until old replicas have",
    ),
    Cause(
        _DEPLOYMENT,
        Tool.KSTATUS,
        lambda it: it.count("readyReplicas") < it.desired(),
        "fewer ready replicas than spec.replicas: Argo CD and kubectl count available ones instead",
    ),
    Cause(
        _DEPLOYMENT,
        Tool.KSTATUS,
        lambda it: it.count("replicas") < it.desired(),
        "fewer replicas than spec.replicas: Argo CD and kubectl count only updated ones",
    ),
    Cause(
        _DEPLOYMENT,
        Tool.KSTATUS,
        lambda it: not it.true("Available"),
        "the condition Available is not True: kstatus waits for it, Argo CD and kubectl use "
        "the replicas",
    ),
    Cause(
        _DEPLOYMENT,
        Tool.KSTATUS,
        lambda it: (
            it.condition("Progressing").get("reason") != "NewReplicaSetAvailable"
            or not it.true("Progressing")
        ),
        "the condition Progressing does not say NewReplicaSetAvailable: kstatus waits for it if a "
        "progress deadline is set, Argo CD and kubectl use the replicas",
    ),
    Cause(
        _REPLICA_SET,
        Tool.ARGO,
        lambda it: it.true("ReplicaFailure"),
        "replicas cannot be created: Argo CD calls that Degraded, kstatus InProgress",
    ),
    Cause(
        _REPLICA_SET,
        Tool.KSTATUS,
        lambda it: it.count("replicas") > it.desired(),
        "more replicas than spec.replicas: kstatus waits until the surplus has ended, Argo CD "
        "does not",
    ),
    Cause(
        _REPLICA_SET,
        Tool.KSTATUS,
        lambda it: min(it.count("readyReplicas"), it.count("fullyLabeledReplicas")) < it.desired(),
        "fewer ready or fully labelled replicas than spec.replicas: Argo CD counts only "
        "available ones",
    ),
    Cause(
        _DEPLOYMENT,
        Tool.GENGUARD,
        lambda it: it.true("ReplicaFailure"),
        "replicas cannot be created, which every other tool ignores in a Deployment",
    ),
    Cause(
        _SETS,
        Tool.KSTATUS,
        lambda it: it.text("spec", "updateStrategy", "type") == "OnDelete",
        "updateStrategy is OnDelete: for kstatus a StatefulSet is always Current, for Argo CD a "
        "DaemonSet is always Healthy, and kubectl has no answer",
    ),
    Cause(
        _SETS,
        Tool.ARGO,
        lambda it: it.text("spec", "updateStrategy", "type") == "OnDelete",
        "updateStrategy is OnDelete: Argo CD counts no updated pods, and kubectl has no answer",
    ),
    Cause(
        _STATEFUL_SET,
        Tool.KSTATUS,
        lambda it: it.count("replicas") != it.desired(),
        "status.replicas is not spec.replicas: kstatus waits for that, Argo CD and kubectl only "
        "for ready pods",
    ),
    Cause(
        _STATEFUL_SET,
        Tool.KSTATUS,
        lambda it: it.at("spec", "updateStrategy", "rollingUpdate") not in (ABSENT, None),
        "updateStrategy.rollingUpdate is set: Argo CD and kubectl then count no pods beyond its "
        "partition and compare no revisions",
    ),
    Cause(
        _STATEFUL_SET,
        Tool.KSTATUS,
        lambda it: it.count("currentReplicas") < it.desired(),
        "fewer pods of status.currentRevision than spec.replicas: kstatus waits for them, Argo CD "
        "and kubectl only compare the revisions",
    ),
    Cause(
        _STATEFUL_SET,
        Tool.GENGUARD,
        lambda it: it.count("availableReplicas") < it.desired(),
        "fewer available replicas than spec.replicas, which no other tool counts in a StatefulSet",
    ),
    Cause(
        _DAEMON_SET,
        Tool.KSTATUS,
        lambda it: it.at("status", "desiredNumberScheduled") in (ABSENT, None),
        "status.desiredNumberScheduled is absent: kstatus waits for it, Argo CD and kubectl "
        "read it as 0",
    ),
    Cause(
        _DAEMON_SET,
        Tool.KSTATUS,
        lambda it: (
            min(it.count("currentNumberScheduled"), it.count("numberReady"))
            < it.count("desiredNumberScheduled")
        ),
        "fewer pods scheduled or ready than desired: Argo CD and kubectl count only updated and "
        "available ones",
    ),
    Cause(
        _DEPLOYMENT | _REPLICA_SET | _SETS,
        Tool.KSTATUS,
        _has_unusual_number,
        "a count is written with a decimal point or exceeds 64 bits: for kstatus it is absent, "
        "Argo CD and kubectl read it",
    ),
)


_POD: Final = frozenset({"Pod"})
_JOB: Final = frozenset({"batch/Job"})
_SERVICE: Final = frozenset({"Service"})


def _cannot_start(it: Evidence) -> bool:
    statuses = it.at("status", "containerStatuses")
    containers = [s for s in statuses if isinstance(s, dict)] if isinstance(statuses, list) else []
    reasons = [text(container, "state", "waiting", "reason") for container in containers]
    return any(r.startswith("Err") or r.endswith(("Error", "BackOff")) for r in reasons)


_OTHERS: Final = (
    Cause(
        _POD,
        Tool.KSTATUS,
        lambda it: it.text("status", "phase") == "Failed",
        "the Pod has failed: for kstatus every Pod that has ended is Current",
    ),
    Cause(
        _POD,
        Tool.ARGO,
        _cannot_start,
        "a container cannot start: Argo CD calls that Degraded for any reason, kstatus Failed "
        "only in CrashLoopBackOff",
    ),
    Cause(
        _POD,
        Tool.KSTATUS,
        lambda it: it.condition("PodScheduled").get("reason") == "Unschedulable",
        "the Pod cannot be scheduled: kstatus calls that Failed after 15 seconds, Argo CD "
        "always Progressing",
    ),
    Cause(
        _POD,
        Tool.ARGO,
        lambda it: it.text("spec", "restartPolicy") in ("OnFailure", "Never"),
        "its restartPolicy is not Always: Argo CD treats the Pod as a hook, which is Healthy only "
        "when it has succeeded",
    ),
    Cause(
        _POD,
        Tool.ARGO,
        lambda it: (
            it.text("status", "phase") == "Running" and it.text("spec", "restartPolicy") != "Always"
        ),
        "Argo CD has no rule for a running Pod without a restartPolicy",
    ),
    Cause(
        _POD,
        Tool.ARGO,
        lambda it: it.outcome(Tool.ARGO) is Outcome.FAILED,
        "a container has ended before and the Pod is not ready: Argo CD calls that Degraded, "
        "kstatus InProgress",
    ),
    Cause(
        _SERVICE,
        Tool.KSTATUS,
        lambda it: it.text("spec", "type") == "LoadBalancer",
        "a LoadBalancer: kstatus requires only a clusterIP, Argo CD an ingress in its status",
    ),
    Cause(
        frozenset({"PersistentVolumeClaim"}),
        Tool.ARGO,
        lambda it: it.text("status", "phase") == "Lost",
        "its volume is lost: Argo CD calls that Degraded, kstatus InProgress, like every phase "
        "but Bound",
    ),
    Cause(
        _JOB,
        Tool.ARGO,
        lambda it: it.true("Suspended"),
        "it is suspended: Argo CD says so, kstatus uses status.startTime",
    ),
    Cause(
        _JOB,
        Tool.ARGO,
        lambda it: any(
            it.condition(kind) and not it.true(kind) for kind in ("Complete", "Failed", "Suspended")
        ),
        "a condition is not True, but for Argo CD it is enough that Complete or Failed exists",
    ),
    Cause(
        _JOB,
        Tool.KSTATUS,
        lambda it: it.true("Complete") and it.true("Failed"),
        "it is both Complete and Failed: kstatus uses the first condition, Argo CD Failed",
    ),
    Cause(
        _JOB,
        Tool.KSTATUS,
        lambda it: it.outcome(Tool.KSTATUS) is Outcome.DONE and not it.true("Complete"),
        "the Job has started and not ended: for kstatus a running Job is Current",
    ),
    Cause(
        frozenset({"policy/PodDisruptionBudget"}),
        Tool.KSTATUS,
        lambda it: it.outcome(Tool.KSTATUS) is Outcome.DONE,
        "for kstatus a budget is Current as soon as it is observed, even without healthy Pods",
    ),
)


_CAUSES: Final[tuple[Cause, ...]] = (*_BEFORE, *_WORKLOADS, *_OTHERS, *_AFTER)


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
    return _unreadable(it) or _find_cause(it) or _list_answers(it)


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


def _find_cause(it: Evidence) -> str | None:
    name = kind_of(it.document).name
    causes = (cause for cause in _CAUSES if not cause.kinds or name in cause.kinds)
    explaining = (cause for cause in causes if it.differs(cause.tool) and cause.holds(it))
    return next((cause.because for cause in explaining), None)


def _list_answers(it: Evidence) -> str:
    answers = ", ".join(f"{tool} says {word}" for tool, word in it.answers.items())
    return f"{answers}; genguard says {'ready and settled' if it.done else 'not ready and settled'}"
