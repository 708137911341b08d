"""What a requester sets in metadata is lost: another webhook takes it away or rewrites it.

Reads   what was asked of labels, annotations, finalizers and owners, and what was left at /mutate
Acts on writes of the main resource whose metadata other webhooks changed
Result  blames other webhooks for what they take away, put back to what was stored, or rewrite
        although it was asked for before; a value that is new each time and rewritten is told as
        info, for webhooks normalise values
Relies  on an explicit value: a key that is added, or that a PUT leaves out and a webhook adds
        again, is a default and no loss
"""

from collections.abc import Iterator
from typing import ClassVar

from webhook.detection.changes import Change
from webhook.detection.detectors.detector import Blame, Detector, Signal, Sort
from webhook.detection.history import ObjectHistory
from webhook.detection.write import Write


class MetadataClobbered(Detector):
    """See the module."""

    name: ClassVar[str] = "metadata-clobbered"
    only_if: ClassVar[Sort] = "is_mutated"

    def judge(self, write: Write, past: ObjectHistory) -> Iterator[Signal]:
        """Yield at most one signal for a write."""
        metadata = write.metadata
        if metadata is None or write.subresource or not metadata.requested or not metadata.webhook:
            return
        made = {one.key: one for one in metadata.webhook}
        lost = [
            (asked, made[asked.key])
            for asked in metadata.requested
            if asked.after is not None and asked.key in made
        ]
        if lost:
            yield Signal(
                Blame.OTHERS,
                tuple(dict.fromkeys(asked.pointer for asked, _ in lost)),
                f"another webhook changed {len(lost)} field(s) of metadata that "
                f"{write.requester.user} had set",
                minor=not any(_is_lost(asked, left, write, past) for asked, left in lost),
            )


def _is_lost(asked: Change, left: Change, write: Write, past: ObjectHistory) -> bool:
    """Whether it is gone, put back, or was asked for before and rewritten then, too."""
    if left.removed or left.after == asked.before:
        return True
    return any(
        one.key == asked.key and one.after == asked.after
        for earlier in past.earlier
        if earlier.requester.user == write.requester.user
        for one in _requested(earlier)
    )


def _requested(write: Write) -> Iterator[Change]:
    if write.metadata is not None and write.metadata.requested is not None:
        yield from write.metadata.requested
