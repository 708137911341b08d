"""Two writers turn a status field to and fro.

Reads   the stored values of each status leaf and who wrote them
Acts on writes of status known to be stored
Result  blames all who turn it back; one writer's own cycle, values that never return, and fields
        that are dropped and set again (see status-clobbered) are not meant
Relies  on conditions being matched by type (openshift/cluster-authentication-operator#269)
"""

from collections.abc import Iterator
from typing import ClassVar

from genguard.detection.detectors.alternation import fight
from genguard.detection.detectors.detector import Detector, Signal, Sort
from genguard.detection.history import ObjectHistory
from genguard.detection.write import Write


class StatusOscillation(Detector):
    """See the module."""

    name: ClassVar[str] = "status-oscillation"
    stored_only_if: ClassVar[Sort] = "writes_status"

    def judge_stored(self, write: Write, past: ObjectHistory) -> Iterator[Signal]:
        """Yield at most one signal for a write."""
        return fight(write, past, in_status=True)
