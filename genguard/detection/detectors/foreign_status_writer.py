"""The status of a bound pod is written by somebody else than its kubelet.

Reads   who writes the status of a pod, and which fields of it that belong to the kubelet change
Acts on writes of status
Result  info, and blames the writer. Quiet are condition types that spec.readinessGates names,
        DisruptionTarget and PodScheduled, fields that a kubelet leaves to others, and the
        controllers that Kubernetes itself allows to write pods/status
Relies  on KEP-5067 (Other writers of pod status), and on having seen the kubelet's user write this
        pod: a virtual kubelet may have any name, and must not be called foreign for that
"""

from collections.abc import Iterator
from typing import ClassVar

from genguard.detection.detectors.detector import Blame, Detector, Signal, Sort
from genguard.detection.history import ObjectHistory
from genguard.detection.write import NODE_USER, Write


class ForeignStatusWriter(Detector):
    """See the module."""

    name: ClassVar[str] = "foreign-status-writer"
    only_if: ClassVar[Sort] = "writes_status"

    def judge(self, write: Write, past: ObjectHistory) -> Iterator[Signal]:
        """Yield one signal for a write of another user than the kubelet."""
        if not write.foreign or not _has_kubelet(past):
            return
        yield Signal(
            Blame.REQUESTER if write.content.requested is not None else Blame.EITHER,
            write.foreign,
            f"{write.requester.user} writes {len(write.foreign)} field(s) in the status of a pod "
            "that belong to the kubelet of its node",
            (write.requester,),
            minor=True,
        )


def _has_kubelet(past: ObjectHistory) -> bool:
    return any(
        one.writes_status and one.requester.user.startswith(NODE_USER) for one in past.writes
    )
