"""The API server counted what genguard did not predict, or the other way round.

Reads   the prediction and the generation of the outcome
Acts on writes that have an outcome
Result  a signal about the server: another version or feature gate than assumed, or one of the few
        changes that no review shows; its requester may be the one who sends those. Where an older
        API server leaves the generation as it is, the message says so: during an upgrade there are
        two versions at once (KEP-5067, Version Skew Strategy), and no review shows which it is of
Relies  on tests/differential, which finds none on the version the table is tested against
"""

from collections.abc import Iterator
from typing import ClassVar

from genguard.detection.detectors.detector import Blame, Detector, Signal, Sort
from genguard.detection.history import ObjectHistory
from genguard.detection.write import Write
from genguard.generation.table import counted_since


class GenerationMismatch(Detector):
    """See the module."""

    name: ClassVar[str] = "generation-mismatch"
    only_if: ClassVar[Sort] = "has_outcome"

    def judge(self, write: Write, past: ObjectHistory) -> Iterator[Signal]:
        """Yield at most one signal for a write."""
        del past
        if write.content.requested and not write.changed_anything:
            return  # write-not-kept tells of a change that was counted, and is not shown
        predicted = write.generation_predicted
        # A server that keeps none of this kind yet is older, or has a gate off: nothing is wrong.
        keeps = write.generation_before or write.generation_after
        if keeps and predicted is not None and predicted != write.generation_after:
            since = counted_since(write.object.group, write.object.resource)
            is_left = since and write.generation_after == write.generation_before
            older = f"; an API server before {since} does not count it" if is_left else ""
            yield Signal(
                Blame.SERVER,
                ("/metadata/generation",),
                f"generation {write.generation_after} where {predicted} was predicted{older}",
                (write.requester,),
                evidence={"predicted": predicted, "generation": write.generation_after},
            )
