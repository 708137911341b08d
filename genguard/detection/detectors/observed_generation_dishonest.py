"""observedGeneration is raised regularly before status is about the new spec, or never.

Reads   how often a writer was early, or never raised it, over all objects of a kind
Acts on each write in which it is so again
Result  info, and blames the writer, with the counts as evidence: who waits for observedGeneration
        takes an old status for the new one, or waits for ever
Relies  on genguard/detection/honesty.py
"""

from collections.abc import Iterator
from typing import ClassVar

from genguard.detection.detectors.detector import Blame, Detector, Signal
from genguard.detection.honesty import DishonestWriter


class ObservedGenerationDishonest(Detector):
    """See the module."""

    name: ClassVar[str] = "observed-generation-dishonest"

    def judge_dishonest(self, dishonest: DishonestWriter) -> Iterator[Signal]:
        """Yield one signal for a write in which it is so again."""
        found, write = dishonest
        if found.is_early:
            what = (
                "raises observedGeneration before conditions and phase are about the new spec: "
                f"{found.early} of {found.raised} times"
            )
        else:
            what = (
                "writes status and does not raise observedGeneration: "
                f"{found.never} of {found.never + found.raised} generations"
            )
        yield Signal(
            Blame.REQUESTER,
            ("/status/observedGeneration",),
            f"{found.user} {what}",
            (write.requester,),
            minor=True,
            evidence={
                "raised": found.raised,
                "early": found.early,
                "never": found.never,
                "generation": write.generation_after,
            },
        )
