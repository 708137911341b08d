"""A webhook that changes an object again when it is asked again.

Reads   the two mutate calls of one write, genguard's own repairs left out
Acts on writes that were reinvoked
Result  blames other webhooks for leaves that round 1 changed once more
Relies  on one reinvocation being ordinary convergence: only the same again on one object is a loop
        (apiserver pkg/admission/plugin/webhook/mutating/reinvocationcontext.go)
"""

from collections.abc import Iterator
from typing import ClassVar

from webhook.detection.detectors.detector import Blame, Detector, Signal, Sort
from webhook.detection.history import ObjectHistory
from webhook.detection.write import Write


class UnstableMutation(Detector):
    """See the module."""

    name: ClassVar[str] = "unstable-mutation"
    only_if: ClassVar[Sort] = "is_changed"

    def judge(self, write: Write, past: ObjectHistory) -> Iterator[Signal]:
        """Yield at most one signal for a write."""
        del past
        made = write.reinvocation_diff.changes
        if made:
            yield Signal(
                Blame.OTHERS,
                tuple(change.pointer for change in made),
                f"a webhook changed {len(made)} field(s) once more when it was reinvoked",
                reinvoked=True,
            )
