"""An observedGeneration that no spec has had yet.

Reads   observedGeneration as asked and as stored, and generation
Acts on writes of status
Result  a signal for each write that sets it above generation
Relies  on nothing in the API server refusing it: it accepts any value but a cleared one on Pods
"""

from collections.abc import Iterator
from typing import ClassVar

from genguard.detection.damage import Damage
from genguard.detection.detectors.detector import Blame, Detector, Signal, Sort
from genguard.detection.history import ObjectHistory
from genguard.detection.write import Write


class ObservedGenerationAhead(Detector):
    """See the module."""

    name: ClassVar[str] = "observed-generation-ahead"
    only_if: ClassVar[Sort] = "writes_status"

    def judge(self, write: Write, past: ObjectHistory) -> Iterator[Signal]:
        """Yield at most one signal for a write."""
        del past
        after = write.observed_after.own
        if not isinstance(after, int) or not 0 < write.generation_after < after:
            return
        asked = write.observed_asked.own
        by_others = write.content.webhook is not None and asked != write.observed_sent.own
        yield Signal(
            Blame.OTHERS if by_others else Blame.REQUESTER,
            ("/status/observedGeneration",),
            f"observedGeneration {after} is ahead of generation {write.generation_after}",
            () if by_others else (write.requester,),
            evidence={"observedGeneration": after, "generation": write.generation_after},
            damage=Damage(ahead=True),
        )
