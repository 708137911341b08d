"""Status that was written is lost: by another webhook, or by a writer of an older type.

Reads   what was asked of status and what was left of it at /mutate; who had set what is removed
Acts on writes of status
Result  blames other webhooks for leaves that were sent and are changed or gone; blames a requester
        whose round trip drops leaves that somebody else had set (the "old struct" clobber:
        kubernetes-sigs/kueue#2878, kubernetes/kubernetes#96688). Users who approve take fields of
        a status away as well (kubectl argo rollouts promote), but not every few seconds
Relies  on observed-generation-cleared and terminating-replicas-dropped for their own fields
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, Final

from genguard.detection.changes import Change
from genguard.detection.damage import MOST_LOST, Damage, LostField
from genguard.detection.detectors.detector import Blame, Detector, Signal, Sort
from genguard.detection.history import ObjectHistory
from genguard.detection.write import Write

_SECONDS: Final = 20.0
_OWN_DETECTOR: Final = frozenset({"observedGeneration", "terminatingReplicas"})


class StatusClobbered(Detector):
    """See the module."""

    name: ClassVar[str] = "status-clobbered"
    only_if: ClassVar[Sort] = "writes_status"

    def judge(self, write: Write, past: ObjectHistory) -> Iterator[Signal]:
        """Yield at most one signal for a write."""
        others = write.content.webhook or ()
        lost = [one for one in others if not one.added and _is_ours(one, others)]
        if lost:
            yield Signal(
                Blame.OTHERS,
                _pointers(lost),
                f"another webhook changed {len(lost)} status field(s) that "
                f"{write.requester.user} sent",
                damage=_damage(lost, write),
            )
            return
        if not past.several_wrote_status:
            return  # nothing of theirs is there to be dropped
        setters = {
            change: past.last_setter_but(write.requester.user, change.key)
            for change in write.content.sent
            if change.removed and _is_ours(change, write.content.sent)
        }
        dropped = [change for change, setter in setters.items() if setter is not None]
        if dropped:
            users = dict.fromkeys(one.user for one in setters.values() if one is not None)
            yield Signal(
                Blame.REQUESTER if write.content.requested is not None else Blame.EITHER,
                _pointers(dropped),
                f"{write.requester.user} dropped {len(dropped)} status field(s) that "
                f"{' and '.join(users)} had set",
                (write.requester,),
                minor=_is_slow(write, past),
            )


def _damage(lost: Sequence[Change], write: Write) -> Damage | None:
    """Conditions and removed fields that were not repaired before the write was stored.

    Another field with another value is not damage: webhooks normalise values, and their writers
    accept that.
    """
    asked = {one.key: one for one in write.content.requested or ()}
    result = {one.key: one for one in write.content.admitted}
    fields = []
    meant = [one for one in lost if one.removed or one.key[1:2] == ("conditions",)]
    for change in meant[:MOST_LOST]:
        if change.key in result:
            stored = result[change.key].after
        elif change.key in asked:
            stored = asked[change.key].before
        else:
            stored = change.before
        if stored != change.before:
            fields.append(LostField(change.key, stored))
    return Damage(fields=tuple(fields)) if fields else None


def _pointers(found: Sequence[Change]) -> tuple[str, ...]:
    return tuple(change.pointer for change in found)


def _is_ours(change: Change, among: Iterable[Change]) -> bool:
    if change.key[0] != "status" or change.key[-1] in _OWN_DETECTOR:
        return False
    # An empty object or list that is filled is a leaf that goes, and no loss.
    below = len(change.key)
    return not (
        change.removed and any(one.added and one.key[:below] == change.key for one in among)
    )


def _is_slow(write: Write, past: ObjectHistory) -> bool:
    """It is long ago that this requester took something away: people approve, loops hurry."""
    return not any(
        one.requester.user == write.requester.user
        and one.time > write.time - _SECONDS
        and any(
            change.removed and _is_ours(change, one.content.sent) for change in one.content.sent
        )
        for one in past.earlier
    )
