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
        lost = [] if write.subresource else _rewritten(write)
        if lost:
            yield Signal(
                Blame.OTHERS,
                tuple(dict.fromkeys(asked.pointer for asked, _ in lost)),
                f"another webhook changed {len(lost)} field(s) of metadata that "
                f"{write.requester.user} had set",
                minor=not any(_is_lost(asked, left, write, past) for asked, left in lost),
            )


def _is_lost(asked: Change, left: Change, write: Write, past: ObjectHistory) -> bool:
    """Whether it is gone, put back, or asked for again since what was made of it was stored.

    A write that is tried again after a conflict asks again as well, and finds the old value.
    """
    if left.removed or left.after == asked.before:
        return True
    return any(
        before.after == asked.after and made.after == asked.before
        for earlier in past.earlier
        if earlier.requester.user == write.requester.user
        for before, made in _rewritten(earlier)
        if before.key == asked.key
    )


def _rewritten(write: Write) -> list[tuple[Change, Change]]:
    """The leaves that the requester set and other webhooks changed: as asked, and as made."""
    made = {one.key: one for one in write.metadata.webhook or ()}
    return [
        (asked, made[asked.key])
        for asked in write.metadata.requested or ()
        if asked.after is not None and asked.key in made
    ]
