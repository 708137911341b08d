"""status.terminatingReplicas was reported and is gone: absent is not 0.

Reads   status.terminatingReplicas as stored, asked, and left by other webhooks
Acts on writes of status of Deployments and ReplicaSets
Result  blames other webhooks, or a requester who drops what somebody else reports
Relies  on KEP-3973: the field is a pointer, and controllers older than it never write it
"""

from collections.abc import Iterator
from typing import ClassVar, Final

from genguard.detection.detectors.detector import Blame, Detector, Signal, Sort
from genguard.detection.diff import Diff
from genguard.detection.history import ObjectHistory
from genguard.detection.write import Write

_KEY: Final = ("status", "terminatingReplicas")
_POINTER: Final = "/status/terminatingReplicas"


class TerminatingReplicasDropped(Detector):
    """See the module."""

    name: ClassVar[str] = "terminating-replicas-dropped"
    only_if: ClassVar[Sort] = "writes_status"

    def judge(self, write: Write, past: ObjectHistory) -> Iterator[Signal]:
        """Yield at most one signal for a write."""
        if write.content.webhook and _is_dropped(write.content.webhook):
            message = f"another webhook dropped what {write.requester.user} reported"
            yield Signal(Blame.OTHERS, (_POINTER,), message)
            return
        requested = write.content.requested
        if requested and past.several_wrote_status and _is_dropped(requested):
            setter = past.last_setter_but(write.requester.user, _KEY)
            if setter is not None:
                message = f"{write.requester.user} dropped what {setter.user} reports"
                yield Signal(Blame.REQUESTER, (_POINTER,), message, (write.requester,))


def _is_dropped(changes: Diff) -> bool:
    return any(change.after is None and change.key == _KEY for change in changes)
