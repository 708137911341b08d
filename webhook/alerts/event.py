"""A Kubernetes Event as genguard makes it; k8s.io/api events/v1/types.go."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, Final

from webhook.objects.shown import printable

CLUSTER_NAMESPACE: Final = "default"
"""Where Events about objects without a namespace are made."""
_LONGEST_NOTE: Final = 1_024  # bytes, as Go counts them (pkg/apis/core/validation/events.go)

CreateEvent = Callable[[str, dict[str, Any]], Awaitable[None]]
"""Creates an events.k8s.io/v1 Event in a namespace; raises when that fails."""


def event(
    at: datetime,
    controller: str,
    *,
    action: str,
    reason: str,
    is_good: bool,
    note: str,
    regarding: Mapping[str, str],
) -> dict[str, Any]:
    """The body of one Event; what is not good is a Warning.

    at         in UTC
    note       escaped where it is not printable, and cut where the API server would refuse it
    regarding  apiVersion, kind, namespace, name and perhaps uid of what it is about
    """
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "generateName": "genguard-",
            "labels": {"app.kubernetes.io/name": "genguard"},
        },
        "eventTime": at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingController": controller,
        "reportingInstance": "genguard",
        "action": action,
        "reason": reason,
        "type": "Normal" if is_good else "Warning",
        "note": cut(printable(note), _LONGEST_NOTE),
        "regarding": regarding,
    }


def cut(text: str, most: int) -> str:
    """So many bytes of the text at most, in whole characters."""
    return text.encode()[:most].decode(errors="ignore")
