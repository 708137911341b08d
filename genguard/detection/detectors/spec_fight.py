"""Two wills about one field of spec: two writers, or a writer and a webhook.

Reads   what was asked of spec, what other webhooks made of it, and the stored values of each leaf
Acts on writes of the main resource and of its scale, which shows the same replicas
Result  blames both writers; or the webhook that puts an explicit value back to what was stored,
        which leaves no trace in generation: each such write is a no-op
Relies  on metadata-fight and metadata-clobbered for the annotations of a Deployment, and
        on an explicit value: a field that a PUT leaves out and a webhook defaults is no fight
"""

from collections.abc import Iterator
from typing import ClassVar, Final

from genguard.detection.detectors.alternation import fight
from genguard.detection.detectors.detector import Blame, Detector, Signal, Sort
from genguard.detection.history import ObjectHistory
from genguard.detection.write import Write

_OTHERS_FIND: Final = frozenset({"status", "metadata"})
"""status-clobbered and metadata-clobbered."""


class SpecFight(Detector):
    """See the module."""

    name: ClassVar[str] = "spec-fight"
    only_if: ClassVar[Sort] = "is_changed"
    stored_only_if: ClassVar[Sort] = "writes_more"

    def judge(self, write: Write, past: ObjectHistory) -> Iterator[Signal]:
        """Yield one signal for a write that a webhook turned back."""
        del past
        requested, made = write.content.requested, write.content.webhook
        if write.subresource not in ("", "scale") or not requested or not made:
            return
        made_of = {change.key: change for change in made}
        turned_back = [
            change
            for change in requested
            if change.key[0] not in _OTHERS_FIND
            and change.after is not None
            and (other := made_of.get(change.key)) is not None
            and other.after == change.before
        ]
        if turned_back:
            yield Signal(
                Blame.OTHERS,
                tuple(change.pointer for change in turned_back),
                f"another webhook put {len(turned_back)} field(s) back that "
                f"{write.requester.user} had changed",
            )

    def judge_stored(self, write: Write, past: ObjectHistory) -> Iterator[Signal]:
        """Yield one signal for a write that turned a field once more."""
        return fight(write, past, in_status=False)
