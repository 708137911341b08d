"""When a Pod is Current for kstatus: ready, or ended in whatever way.

Source: podConditions in pkg/kstatus/status/core.go of cli-utils v0.37.2.
"""

from collections.abc import Mapping
from typing import Any, Final

from webhook.objects.fields import ABSENT
from webhook.status.views.kstatus.verdict import Kstatus, Seen
from webhook.status.views.reading import (
    ZERO_TIME,
    Document,
    TypeMismatchError,
    nested,
    text,
    unix_nanoseconds,
)

SCHEDULE_WINDOW: Final = 15.0
"""Seconds for which a Pod may be unschedulable before that is a failure."""


def pod(it: Seen) -> Kstatus:
    """Raises TypeMismatchError for a phase that kstatus does not know, Unknown among them."""
    phase = text(it.document, "status", "phase")
    if phase in ("Succeeded", "Failed"):
        return Kstatus.CURRENT
    if phase == "Running":
        if it.has("Ready", "True"):
            return Kstatus.CURRENT
        return Kstatus.FAILED if _crash_looping(it.document) else Kstatus.IN_PROGRESS
    if phase == "Pending":
        return _pending(it)
    if phase == "":
        return Kstatus.IN_PROGRESS
    raise TypeMismatchError("status.phase")


def _pending(it: Seen) -> Kstatus:
    unscheduled = (
        c for c in it.conditions if c.get("type") == "PodScheduled" and c.get("status") == "False"
    )
    if next(unscheduled, {}).get("reason") != "Unschedulable":
        return Kstatus.IN_PROGRESS
    created = unix_nanoseconds(text(it.document, "metadata", "creationTimestamp"))
    young = (it.at - SCHEDULE_WINDOW) * 1e9 < (ZERO_TIME if created is None else created)
    return Kstatus.IN_PROGRESS if young else Kstatus.FAILED


def _crash_looping(document: Document) -> bool:
    """Whether a container waits in CrashLoopBackOff; one without a name is not looked at.

    Raises TypeMismatchError where getCrashLoopingContainers panics or returns an error.
    """
    path = "status.containerStatuses"
    statuses = nested(document, "status", "containerStatuses")
    if statuses is ABSENT:
        return False
    if not isinstance(statuses, list):
        raise TypeMismatchError(path)
    found = False
    for status in statuses:
        if _step(status, "name", str, path) is None:
            continue
        value: Any = status
        for key in ("state", "waiting"):
            value = None if value is None else _step(value, key, Mapping, path)
        reason = None if value is None else _step(value, "reason", str, path)
        found = found or reason == "CrashLoopBackOff"
    return found


def _step(value: Any, key: str, wanted: type, path: str) -> Any:
    """The value of a key, None where it is absent."""
    if not isinstance(value, Mapping):
        raise TypeMismatchError(path)
    found = value.get(key, ABSENT)
    if found is ABSENT:
        return None
    if not isinstance(found, wanted):
        raise TypeMismatchError(path)
    return found
