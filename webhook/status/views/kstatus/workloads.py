"""When a workload is Current for kstatus: what runs is what was asked for, and nothing more.

Source: pkg/kstatus/status/core.go of cli-utils v0.37.2.
"""

from typing import Final

from webhook.objects.fields import ABSENT
from webhook.status.views.kstatus.verdict import Kstatus, Seen, current_if
from webhook.status.views.reading import nested_integer, number, text, wrap

_NO_DEADLINE: Final = 2**31 - 1


def deployment(it: Seen) -> Kstatus:
    """Failed past its deadline; Current needs Available, and with a deadline Progressing."""
    progressing = [c for c in it.conditions if c.get("type") == "Progressing"]
    if any(c.get("reason") == "ProgressDeadlineExceeded" for c in progressing):
        return Kstatus.FAILED
    deadline = number(it.document, "spec", "progressDeadlineSeconds", default=_NO_DEADLINE)
    finished = deadline == _NO_DEADLINE or any(
        c.get("status") == "True" and c.get("reason") == "NewReplicaSetAvailable"
        for c in progressing
    )
    wanted = number(it.document, "spec", "replicas", default=1)
    updated = number(it.document, "status", "updatedReplicas")
    return current_if(
        number(it.document, "status", "replicas") == wanted
        and wanted <= updated <= number(it.document, "status", "availableReplicas")
        and wanted <= number(it.document, "status", "readyReplicas")
        and finished
        and it.has("Available", "True")
    )


def replica_set(it: Seen) -> Kstatus:
    """A replica that cannot be made is InProgress, whatever is counted."""
    if it.has("ReplicaFailure", "True"):
        return Kstatus.IN_PROGRESS
    wanted = number(it.document, "spec", "replicas", default=1)
    counts = ("fullyLabeledReplicas", "availableReplicas", "readyReplicas")
    return current_if(
        all(wanted <= number(it.document, "status", count) for count in counts)
        and number(it.document, "status", "replicas") <= wanted
    )


def stateful_set(it: Seen) -> Kstatus:
    """OnDelete is the user's own affair and always Current; a partition leaves revisions apart."""
    if text(it.document, "spec", "updateStrategy", "type") == "OnDelete":
        return Kstatus.CURRENT
    wanted = number(it.document, "spec", "replicas", default=1)
    if number(it.document, "status", "replicas") != wanted:
        return Kstatus.IN_PROGRESS
    if number(it.document, "status", "readyReplicas") < wanted:
        return Kstatus.IN_PROGRESS
    strategy = ("spec", "updateStrategy", "rollingUpdate", "partition")
    partition = number(it.document, *strategy, default=-1)
    if partition != -1:
        return current_if(
            number(it.document, "status", "updatedReplicas") >= wrap(wanted - partition, 64)
        )
    current, update = (
        text(it.document, "status", name) for name in ("currentRevision", "updateRevision")
    )
    return current_if(
        number(it.document, "status", "currentReplicas") >= wanted and current == update
    )


def daemon_set(it: Seen) -> Kstatus:
    """Not before its controller has counted: an absent observedGeneration is InProgress."""
    for field in (("metadata", "generation"), ("status", "observedGeneration")):
        if nested_integer(it.document, *field) is ABSENT:
            return Kstatus.IN_PROGRESS
    desired = number(it.document, "status", "desiredNumberScheduled", default=-1)
    counts = ("currentNumberScheduled", "updatedNumberScheduled", "numberAvailable", "numberReady")
    return current_if(
        desired != -1 and all(desired <= number(it.document, "status", count) for count in counts)
    )
