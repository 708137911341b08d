"""An observedGeneration that was set is cleared.

Reads   every observedGeneration of the status: stored, asked, after other webhooks
Acts on writes of status
Result  blames other webhooks for what was asked and gone at /mutate; a requester only for what
        somebody else had set, since controllers write old and empty values of their own
Relies  on KEP-5067 (Infinite loop caused by misbehaving mutating webhooks)
"""

from collections.abc import Iterator
from typing import ClassVar

from webhook.detection.detectors.detector import Blame, Sign
from webhook.detection.history import ObjectHistory
from webhook.detection.write import Write
from webhook.objects.observed import restorations
from webhook.objects.pointer import to_pointer

_OWN = ("status", "observedGeneration")


class ObservedGenerationCleared:
    """See the module."""

    name: ClassVar[str] = "observed-generation-cleared"

    def asked(self, write: Write, past: ObjectHistory) -> Iterator[Sign]:
        """One sign a write."""
        if not write.writes_status:
            return
        if write.others is not None:
            wanted, blame = write.observed_asked, Blame.OTHERS
        else:
            wanted, blame = write.observed_before, Blame.EITHER
        gone = list(restorations(wanted, write.observed_sent))
        if gone and blame is Blame.OTHERS:
            yield Sign(
                blame,
                tuple(to_pointer(one.path) for one in gone),
                f"another webhook cleared {len(gone)} observedGeneration value(s) that "
                f"{write.requester.user} sent",
                evidence={"asked": gone[0].value},
            )
        elif self._cleared_by_requester(write, past):
            yield Sign(
                Blame.REQUESTER if write.asked is not None else blame,
                (to_pointer(_OWN),),
                f"{write.requester.user} cleared an observedGeneration that somebody else had set",
                (write.requester,),
                evidence={"stored": write.observed_before.own},
            )

    def stored(self, write: Write, past: ObjectHistory) -> Iterator[Sign]:
        """Nothing more: what is cleared is seen before it is stored."""
        del write, past
        return iter(())

    def _cleared_by_requester(self, write: Write, past: ObjectHistory) -> bool:
        if not write.observed_before.own or write.observed_asked.own is not None:
            return False
        setter = past.last_setter(_OWN)
        return setter is not None and setter.user != write.requester.user
