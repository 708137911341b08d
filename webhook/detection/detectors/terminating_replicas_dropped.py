"""status.terminatingReplicas was reported and is gone: absent is not 0.

Reads   status.terminatingReplicas as stored, asked, and left by other webhooks
Acts on writes of status of Deployments and ReplicaSets
Result  blames other webhooks, or a requester who drops what somebody else reports
Relies  on KEP-3973: the field is a pointer, and controllers older than it never write it
"""

from collections.abc import Iterator
from typing import ClassVar, Final

from webhook.detection.changes import Changes
from webhook.detection.detectors.detector import Blame, Sign
from webhook.detection.history import ObjectHistory
from webhook.detection.write import Write

_KEY: Final = ("status", "terminatingReplicas")
_POINTER: Final = "/status/terminatingReplicas"


class TerminatingReplicasDropped:
    """See the module."""

    name: ClassVar[str] = "terminating-replicas-dropped"

    def asked(self, write: Write, past: ObjectHistory) -> Iterator[Sign]:
        """One sign a write."""
        if write.others and _is_dropped(write.others):
            message = f"another webhook dropped what {write.requester.user} reported"
            yield Sign(Blame.OTHERS, (_POINTER,), message)
        elif write.asked and _is_dropped(write.asked):
            setter = past.last_setter_but(write.requester.user, _KEY)
            if setter is not None:
                message = f"{write.requester.user} dropped what {setter.user} reports"
                yield Sign(Blame.REQUESTER, (_POINTER,), message, (write.requester,))

    def stored(self, write: Write, past: ObjectHistory) -> Iterator[Sign]:
        """Nothing more."""
        del write, past
        return iter(())


def _is_dropped(changes: Changes) -> bool:
    return any(change.after is None and change.key == _KEY for change in changes)
