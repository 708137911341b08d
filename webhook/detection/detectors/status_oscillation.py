"""Two writers turn a status field to and fro.

Reads   the stored values of each status leaf and who wrote them
Acts on writes of status known to be stored
Result  blames both; one writer's own cycle and values that never return are not meant
Relies  on conditions being matched by type (openshift/cluster-authentication-operator#269)
"""

from collections.abc import Iterator
from typing import ClassVar

from webhook.detection.detectors.alternation import alternations
from webhook.detection.detectors.detector import Blame, Sign
from webhook.detection.history import ObjectHistory
from webhook.detection.write import Write


class StatusOscillation:
    """See the module."""

    name: ClassVar[str] = "status-oscillation"

    def asked(self, write: Write, past: ObjectHistory) -> Iterator[Sign]:
        """Nothing yet: a turn counts when it was stored."""
        del write, past
        return iter(())

    def stored(self, write: Write, past: ObjectHistory) -> Iterator[Sign]:
        """One sign a write."""
        found = list(alternations(write, past, in_status=True))
        if found:
            one, other = found[0][1]
            yield Sign(
                Blame.REQUESTER,
                tuple(change.pointer for change, _ in found),
                f"{one.user} and {other.user} turn {len(found)} status field(s) to and fro",
                (one, other),
            )
