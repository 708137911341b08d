"""Terminating replicas (KEP-3973): what status says, and what the pods themselves show."""

from collections.abc import Sequence

from webhook.status.reason import Blocks, Reason, type_word
from webhook.status.subject import COUNT, Subject
from webhook.status.view import StatusView


def reported_terminating(subject: Subject) -> int | None:
    """status.terminatingReplicas; None where it is absent, null or no count: absent is not 0."""
    value = subject.status.get("terminatingReplicas")
    return value if type(value) is int and value >= 0 else None


def unreadable_terminating(subject: Subject) -> list[Reason]:
    """That status.terminatingReplicas is there and no count; nothing for absent and null."""
    value = subject.status.get("terminatingReplicas")
    if value is None:
        return []
    path = "status.terminatingReplicas"
    return [Reason(path, type_word(value), COUNT, "", Blocks.SETTLED)]


def counted_terminating(children: Sequence[StatusView]) -> int | None:
    """Pods with a deletionTimestamp and neither Failed nor Succeeded, also below ReplicaSets.

    None where no child is a pod, or knows of any. Source: KEP-3973, Design Details, API.
    """
    counts = [
        int(child.deleting and not child.finished)
        for child in children
        if child.kind == "Pod" and not child.group
    ]
    counts += [
        child.terminating_replicas
        for child in children
        if child.kind == "ReplicaSet" and child.terminating_replicas is not None
    ]
    return sum(counts) if counts else None
