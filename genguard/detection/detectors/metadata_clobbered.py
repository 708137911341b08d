"""What a requester sets in metadata is lost: another webhook takes it away or rewrites it.

Reads   what was asked of labels, annotations, finalizers and owners, and what was left at /mutate;
        what was stored of what earlier writes asked for
Acts on writes of the main resource whose metadata other webhooks changed
Result  blames other webhooks for what they take away, put back to what was stored, or rewrite
        although it was asked for before; a value that is new each time and rewritten is told as
        info, for webhooks normalise values. And for what they turn back once more in a write that
        does not ask for it: a webhook may act on the writes of some users alone
Relies  on an explicit value: a key that is added, or that a PUT leaves out and a webhook adds
        again, is a default and no loss. An annotation that is taken away in a later write is a
        question and its answer
"""

from collections.abc import Iterator
from typing import ClassVar

from genguard.detection.changes import Change
from genguard.detection.detectors.detector import Blame, Detector, Signal, Sort
from genguard.detection.history import ObjectHistory
from genguard.detection.metadata import ANNOTATIONS
from genguard.detection.write import Write


class MetadataClobbered(Detector):
    """See the module."""

    name: ClassVar[str] = "metadata-clobbered"
    only_if: ClassVar[Sort] = "is_mutated"

    def judge(self, write: Write, past: ObjectHistory) -> Iterator[Signal]:
        """Yield at most one signal for a write."""
        if write.subresource:
            return
        lost, turned = _rewritten(write), _turned_back(write, past)
        users = [write.requester.user] if lost else []
        users += [setter for setter, _ in turned]
        changed = [asked for asked, _ in lost] + [made for _, made in turned]
        if changed:
            yield Signal(
                Blame.OTHERS,
                tuple(dict.fromkeys(one.pointer for one in changed)),
                f"another webhook changed {len(changed)} field(s) of metadata that "
                f"{' and '.join(dict.fromkeys(users))} had set",
                minor=not turned
                and not any(_is_lost(asked, left, write, past) for asked, left in lost),
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


def _turned_back(write: Write, past: ObjectHistory) -> list[tuple[str, Change]]:
    """What webhooks turned back although the write does not ask for it, and who had set it."""
    asked = {one.key for one in write.metadata.requested or ()}
    net = {one.key for one in write.metadata.admitted}
    found: list[tuple[str, Change]] = []
    for made in write.metadata.webhook or ():
        if made.key in asked or made.key not in net or made.before is None:
            continue
        if made.removed and made.key[1] == ANNOTATIONS:
            continue
        setter = _set_again(made, past)
        if setter is not None:
            found.append((setter, made))
    return found


def _set_again(made: Change, past: ObjectHistory) -> str | None:
    """Who set the value that is turned back now, and had set it before it was turned back before.

    None where this is the first time.
    """
    setter, is_turned = None, False
    for earlier in reversed(past.stored):
        asked = {one.key: one.after for one in earlier.metadata.requested or ()}
        left = {one.key: one.after for one in earlier.metadata.admitted}
        if made.key not in left:
            continue
        if left[made.key] == made.before and asked.get(made.key) == made.before:
            user = earlier.requester.user
            if is_turned and user == setter:
                return setter
            setter = setter or user
        elif setter is not None and left[made.key] == made.after and made.key not in asked:
            is_turned = True
    return None
