"""Status that was written is lost: by another webhook, or by a writer of an older type.

Reads   what was asked of status and what was left of it at /mutate; who had set what is removed
Acts on writes of status
Result  blames other webhooks for leaves that were sent and are changed or gone; blames a requester
        whose round trip drops leaves that somebody else had set (the "old struct" clobber:
        kubernetes-sigs/kueue#2878, kubernetes/kubernetes#96688)
Relies  on observed-generation-cleared and terminating-replicas-dropped for their own fields
"""

from collections.abc import Iterator
from typing import ClassVar, Final

from webhook.detection.changes import Change
from webhook.detection.detectors.detector import Blame, Sign
from webhook.detection.history import ObjectHistory
from webhook.detection.write import Write

_OWN_DETECTOR: Final = frozenset({"observedGeneration", "terminatingReplicas"})


class StatusClobbered:
    """See the module."""

    name: ClassVar[str] = "status-clobbered"

    def asked(self, write: Write, past: ObjectHistory) -> Iterator[Sign]:
        """One sign a write."""
        if not write.writes_status:
            return
        lost = [change for change in write.others or () if not change.added and _is_ours(change)]
        if lost:
            yield Sign(
                Blame.OTHERS,
                tuple(change.pointer for change in lost),
                f"another webhook changed {len(lost)} status field(s) that "
                f"{write.requester.user} sent",
            )
            return
        dropped = [
            change
            for change in write.asked or ()
            if change.removed and _is_ours(change) and _set_by_another(change, write, past)
        ]
        if dropped:
            yield Sign(
                Blame.REQUESTER,
                tuple(change.pointer for change in dropped),
                f"{write.requester.user} dropped {len(dropped)} status field(s) that "
                "somebody else had set",
                (write.requester,),
            )

    def stored(self, write: Write, past: ObjectHistory) -> Iterator[Sign]:
        """Nothing more: what is lost is seen before it is stored."""
        del write, past
        return iter(())


def _is_ours(change: Change) -> bool:
    return change.key[0] == "status" and change.key[-1] not in _OWN_DETECTOR


def _set_by_another(change: Change, write: Write, past: ObjectHistory) -> bool:
    setter = past.last_setter(change.key)
    return setter is not None and setter.user != write.requester.user
