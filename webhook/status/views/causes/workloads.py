"""Causes of disagreement about Deployments, ReplicaSets, StatefulSets and DaemonSets."""

from typing import Final

from webhook.objects.fields import ABSENT
from webhook.status.views.causes.cause import Cause
from webhook.status.views.evidence import Evidence, Tool
from webhook.status.views.reading import is_int64

_DEPLOYMENT: Final = frozenset({"apps/Deployment", "extensions/Deployment"})
_REPLICA_SET: Final = frozenset({"apps/ReplicaSet", "extensions/ReplicaSet"})
_STATEFUL_SET: Final = frozenset({"apps/StatefulSet"})
_DAEMON_SET: Final = frozenset({"apps/DaemonSet", "extensions/DaemonSet"})
_SETS: Final = _STATEFUL_SET | _DAEMON_SET


def _written_oddly(it: Evidence) -> bool:
    status = it.at("status")
    counts = [it.at("spec", "replicas"), *(status.values() if isinstance(status, dict) else ())]
    return any(isinstance(count, int | float) and not is_int64(count) for count in counts)


WORKLOADS: Final = (
    Cause(
        _DEPLOYMENT,
        Tool.ARGO,
        lambda it: it.at("spec", "paused") is True,
        "it is paused: Argo CD says Suspended whatever runs, kubectl goes by the replicas alone, "
        "kstatus by the condition Progressing too",
    ),
    Cause(
        _DEPLOYMENT | _REPLICA_SET | _STATEFUL_SET,
        Tool.KSTATUS,
        lambda it: not it.observed(),
        "status.observedGeneration is absent: kstatus passes over that, Argo CD and kubectl "
        "read it as 0",
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
        "status.observedGeneration is 0: for Argo CD and kubectl that StatefulSet is not observed",
    ),
    Cause(
        _DEPLOYMENT | _REPLICA_SET | _STATEFUL_SET,
        Tool.KSTATUS,
        lambda it: it.at("spec", "replicas") in (ABSENT, None),
        "spec.replicas is absent: kstatus takes it for 1, Argo CD and kubectl ask for nothing",
    ),
    Cause(
        _DEPLOYMENT,
        Tool.KSTATUS,
        lambda it: it.count("replicas") > it.wanted(),
        "more replicas than spec.replicas: kstatus waits for the surplus to end, Argo CD and "
        "kubectl only for old ones",
    ),
    Cause(
        _DEPLOYMENT,
        Tool.KSTATUS,
        lambda it: it.count("readyReplicas") < it.wanted(),
        "fewer ready replicas than spec.replicas: Argo CD and kubectl count the available ones",
    ),
    Cause(
        _DEPLOYMENT,
        Tool.KSTATUS,
        lambda it: it.count("replicas") < it.wanted(),
        "fewer replicas than spec.replicas: Argo CD and kubectl count the updated ones only",
    ),
    Cause(
        _DEPLOYMENT,
        Tool.KSTATUS,
        lambda it: not it.true("Available"),
        "the condition Available is not True: kstatus waits for it, Argo CD and kubectl go by "
        "the replicas",
    ),
    Cause(
        _DEPLOYMENT,
        Tool.KSTATUS,
        lambda it: (
            it.condition("Progressing").get("reason") != "NewReplicaSetAvailable"
            or not it.true("Progressing")
        ),
        "the condition Progressing does not say NewReplicaSetAvailable: kstatus waits for it where "
        "a progress deadline is set, Argo CD and kubectl go by the replicas",
    ),
    Cause(
        _REPLICA_SET,
        Tool.ARGO,
        lambda it: it.true("ReplicaFailure"),
        "replicas cannot be made: Argo CD calls that Degraded, kstatus InProgress",
    ),
    Cause(
        _REPLICA_SET,
        Tool.KSTATUS,
        lambda it: it.count("replicas") > it.wanted(),
        "more replicas than spec.replicas: kstatus waits for the surplus to end, Argo CD does not",
    ),
    Cause(
        _REPLICA_SET,
        Tool.KSTATUS,
        lambda it: min(it.count("readyReplicas"), it.count("fullyLabeledReplicas")) < it.wanted(),
        "fewer ready or fully labelled replicas than spec.replicas: Argo CD counts the available "
        "ones only",
    ),
    Cause(
        _DEPLOYMENT,
        Tool.GENGUARD,
        lambda it: it.true("ReplicaFailure"),
        "replicas cannot be made, which no other tool looks at in a Deployment",
    ),
    Cause(
        _SETS,
        Tool.KSTATUS,
        lambda it: it.text("spec", "updateStrategy", "type") == "OnDelete",
        "updateStrategy is OnDelete: kstatus takes a StatefulSet for Current whatever is ready, "
        "Argo CD a DaemonSet for Healthy, and kubectl has no answer",
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
        lambda it: it.count("replicas") != it.wanted(),
        "status.replicas is not spec.replicas: kstatus waits for that, Argo CD and kubectl for "
        "ready pods alone",
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
        lambda it: it.count("currentReplicas") < it.wanted(),
        "fewer pods of status.currentRevision than spec.replicas: kstatus waits for them, Argo CD "
        "and kubectl compare the revisions only",
    ),
    Cause(
        _STATEFUL_SET,
        Tool.GENGUARD,
        lambda it: it.count("availableReplicas") < it.wanted(),
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
        "fewer pods scheduled or ready than desired: Argo CD and kubectl count the updated and the "
        "available ones only",
    ),
    Cause(
        _DEPLOYMENT | _REPLICA_SET | _SETS,
        Tool.KSTATUS,
        _written_oddly,
        "a count is written with a point or beyond 64 bits: kstatus takes it for absent, Argo CD "
        "and kubectl read it",
    ),
)
