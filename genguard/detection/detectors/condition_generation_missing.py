"""A condition of a pod is set without its observedGeneration.

Reads   the conditions that a write sets, and whether the kubelet of the pod tracks generations
Acts on writes of a bound pod's status by others than its kubelet
Result  info, and blames the writer: nobody can tell which spec its condition is about
Relies  on KEP-5067 (Other writers of pod status). Where the kubelet has not set
        status.observedGeneration, it is older than 1.33 or has the feature off: then nobody is told
"""

from collections.abc import Iterator
from typing import ClassVar

from genguard.detection.detectors.detector import Blame, Detector, Signal, Sort
from genguard.detection.history import ObjectHistory
from genguard.detection.write import Write


class ConditionGenerationMissing(Detector):
    """See the module."""

    name: ClassVar[str] = "condition-generation-missing"
    only_if: ClassVar[Sort] = "writes_status"

    def judge(self, write: Write, past: ObjectHistory) -> Iterator[Signal]:
        """Yield one signal for a write that sets such conditions."""
        del past
        if write.unobserved:
            yield Signal(
                Blame.REQUESTER if write.content.requested is not None else Blame.EITHER,
                write.unobserved,
                f"{write.requester.user} sets {len(write.unobserved)} condition(s) of a pod "
                "without observedGeneration",
                (write.requester,),
                minor=True,
            )
