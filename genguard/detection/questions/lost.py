"""Lost: what somebody set is gone, taken away by a webhook, an old client or the API server."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import ClassVar, Final

from genguard.detection.changes import Change
from genguard.detection.damage import MOST_LOST, Damage, LostField, lost_values
from genguard.detection.history import ObjectHistory
from genguard.detection.metadata import ANNOTATIONS
from genguard.detection.questions.question import (
    Answers,
    Blame,
    Declared,
    Event,
    Question,
    Seen,
    Signal,
    Stored,
    blame_of,
)
from genguard.detection.sample import field_names
from genguard.detection.write import Write
from genguard.objects.fields import Path, to_pointer
from genguard.objects.observed import Observed, Restoration, restorations

CLEARED: Final = Declared(
    "observed-generation-cleared",
    "a webhook or writer clears an `observedGeneration`: rollouts hang",
    "[clears|clear] observedGeneration of {}",
    is_harm=True,
)
CLOBBERED: Final = Declared(
    "status-clobbered",
    "a webhook or writer removes or changes fields of status that somebody else reported",
    "[overwrites|overwrite] {field} of {}",
    "the status",
    is_harm=True,
)
TERMINATING: Final = Declared(
    "terminating-replicas-dropped",
    "`status.terminatingReplicas` was reported and is gone",
    "[drops|drop] terminatingReplicas of {}",
    is_harm=True,
)
METADATA: Final = Declared(
    "metadata-clobbered",
    "a webhook removes or changes what a requester sets in metadata",
    "[overwrites|overwrite] {field} of {}",
    "the metadata",
)
NOT_KEPT: Final = Declared(
    "write-not-kept",
    "a change is requested again and again, each time with success, and is not there afterwards",
    "[asks again and again for|ask again and again for] {field} of {}",
    "a change",
)


class Lost(Question):
    """See the module."""

    findings: ClassVar = (
        CLEARED,
        CLOBBERED,
        TERMINATING,
        METADATA,
        NOT_KEPT,
    )

    def ask(self, event: Event) -> Answers:
        """Ask what is missing of what was sent, or of what others had set."""
        if isinstance(event, Seen):
            write, past = event
            if write.writes_status:
                yield from CLEARED.of(_cleared(write, past))
                yield from _lost_of_status(write, past)
            if write.is_mutated and not write.subresource:
                yield from METADATA.of(_lost_of_metadata(write, past))
            if write.has_outcome:
                yield from NOT_KEPT.of(_dropped_by_server(write, past))
        elif isinstance(event, Stored) and event.write.counted:
            yield from NOT_KEPT.of(_gone_again(*event))


_OBSERVED: Final = "observedGeneration"


def _cleared(write: Write, past: ObjectHistory) -> Iterator[Signal]:
    """An observedGeneration that was set is cleared (KEP-5067, misbehaving mutating webhooks).

    Other webhooks are blamed for what was asked and gone at /mutate; a requester only for what
    somebody else had set, since controllers write old and empty values of their own. Where the
    intent was not seen either may have done it; a value that the server or genguard had to put
    back was then cleared by one of them. A value that is not stored is damage.
    """
    user, asked, after = write.requester.user, write.observed_asked, write.observed_after
    if write.content.webhook is not None:
        gone = list(restorations(asked, write.observed_sent))
        if gone:
            yield Signal(
                Blame.OTHERS,
                tuple(to_pointer(one.path) for one in gone),
                f"another webhook cleared {len(gone)} observedGeneration value(s) that {user} sent",
                evidence={"asked": gone[0].value},
                damage=_damage_of_values(asked, after, user),
                averted=_damage_of_values(asked, write.observed_sent, user),
            )
            return
    gone = list(restorations(write.observed_before, asked))
    theirs = [
        one
        for one in gone
        if past.several_wrote_status and past.last_setter_but(user, _leaf_of(one, asked))
    ]
    if theirs:
        yield Signal(
            blame_of(write.content),
            tuple(to_pointer(one.path) for one in theirs),
            f"{user} cleared {len(theirs)} observedGeneration value(s) that somebody else had set",
            (write.requester,),
            evidence={"stored": theirs[0].value},
            damage=_damage_of_values(write.observed_before, after, ""),
        )
    elif gone and write.content.requested is None and not _is_gone(gone, after):
        yield Signal(
            Blame.EITHER,
            tuple(to_pointer(one.path) for one in gone),
            f"{len(gone)} observedGeneration value(s) were cleared in a write of {user}, "
            "and put back before it was stored",
            evidence={"stored": gone[0].value},
        )


def _damage_of_values(sent: Observed, left: Observed, writer: str) -> Damage | None:
    """The values that are not there any more."""
    lost = lost_values(sent, left)
    return Damage(lost=lost, writer=writer) if lost else None


def _leaf_of(one: Restoration, found: Observed) -> Path:
    """Return the leaf of a value: that of a condition is known by its type."""
    if "conditions" not in one.path:
        return "status", _OBSERVED
    _, _, index, _ = one.path
    return "status", "conditions", f"type={found.conditions[int(index)].type}", _OBSERVED


def _is_gone(gone: Iterable[Restoration], after: Observed) -> bool:
    """Whether nothing of it came back."""
    own = after.own is None
    conditions = all(one.observed is None for one in after.conditions)
    return all(conditions if "conditions" in one.path else own for one in gone)


_SECONDS: Final = 20.0
_KEY: Final = ("status", "terminatingReplicas")
_OTHER_FINDINGS: Final = frozenset({_OBSERVED, "terminatingReplicas"})


def _lost_of_status(write: Write, past: ObjectHistory) -> Answers:
    """Fields of status are lost: to another webhook, or to a writer of an older type.

    Other webhooks are blamed for leaves that were sent and are changed or gone; a requester whose
    round trip drops leaves that somebody else had set (kubernetes-sigs/kueue#2878,
    kubernetes/kubernetes#96688; of terminatingReplicas, KEP-3973: absent is not 0). Users who
    approve take fields of a status away as well (kubectl argo rollouts promote), but not every few
    seconds.
    """
    others, user = write.content.webhook or (), write.requester.user
    for found, is_meant in ((CLOBBERED, _is_ours), (TERMINATING, _is_terminating)):
        lost = [one for one in others if not one.added and is_meant(one, others)]
        if lost:
            yield (
                found,
                Signal(
                    Blame.OTHERS,
                    tuple(one.pointer for one in lost),
                    f"another webhook changed {len(lost)} status field(s) that {user} sent",
                    damage=_damage_of_status(lost, write) if found is CLOBBERED else None,
                ),
            )
            continue
        if not past.several_wrote_status:
            continue  # nothing of theirs is there to be dropped
        sent = write.content.sent
        setters = {
            one: past.last_setter_but(user, one.key)
            for one in sent
            if one.removed and is_meant(one, sent)
        }
        dropped = [one for one, setter in setters.items() if setter is not None]
        if dropped:
            users = dict.fromkeys(one.user for one in setters.values() if one is not None)
            yield (
                found,
                Signal(
                    blame_of(write.content),
                    tuple(one.pointer for one in dropped),
                    f"{user} dropped {len(dropped)} status field(s) that "
                    f"{' and '.join(users)} had set",
                    (write.requester,),
                    minor=found is CLOBBERED and _is_slow(write, past),
                ),
            )


def _damage_of_status(lost: Sequence[Change], write: Write) -> Damage | None:
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


def _is_ours(change: Change, among: Iterable[Change]) -> bool:
    if change.key[0] != "status" or change.key[-1] in _OTHER_FINDINGS:
        return False
    # An empty object or list that is filled is a leaf that goes, and no loss.
    below = len(change.key)
    return not (
        change.removed and any(one.added and one.key[:below] == change.key for one in among)
    )


def _is_terminating(change: Change, among: Iterable[Change]) -> bool:
    del among
    return change.removed and change.key == _KEY


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


def _lost_of_metadata(write: Write, past: ObjectHistory) -> Iterator[Signal]:
    """What a requester sets in metadata is lost: another webhook takes it away or rewrites it.

    Webhooks are blamed for what they take away, put back to what was stored, or rewrite although
    it was asked for before; a value that is new each time and rewritten is told as info, for
    webhooks normalise values. And for what they turn back once more in a write that does not ask
    for it: a webhook may act on the writes of some users alone. A key that is added, or that a PUT
    leaves out and a webhook adds again, is a default and no loss. An annotation that is taken away
    in a later write is a question and its answer.
    """
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


_TIMES_NOT_KEPT: Final = 6
_SECONDS_NOT_KEPT: Final = 3_600.0
_MOST_LEAVES: Final = 20
_NOT_MEANT: Final = frozenset({"status", "metadata"})


def _dropped_by_server(write: Write, past: ObjectHistory) -> Iterator[Signal]:
    """The same change is asked for again and again, and the API server drops it.

    The writer is named with the version of the API that it uses: a conversion between two versions
    of a custom resource may not know the field, or a strategy drops it.
    """
    if write.subresource or write.changed_anything or write.content.webhook:
        return
    asked = _asked(write)
    if not asked:
        return
    same = [
        one
        for one in past.earlier
        if one.requester.user == write.requester.user
        and not one.subresource
        and one.time > write.time - _SECONDS_NOT_KEPT
    ]
    lost = _in_each(asked, [one for one in same if _asked(one)][-_TIMES_NOT_KEPT + 1 :])
    if lost:
        yield _signal_not_kept(write, lost, "and the API server drops it")


def _gone_again(write: Write, past: ObjectHistory) -> Iterator[Signal]:
    """The same change is stored again and again, and nobody is seen to take it back.

    Between most of these writes generation must not have moved unseen, else somebody whose reviews
    were lost may have taken the value back.
    """
    if write.subresource or write.content.webhook:
        return
    stored = [
        one for one in past.stored if one.counted and one.time > write.time - _SECONDS_NOT_KEPT
    ]
    jumps = [one.generation_after != after.generation_before for one, after in pairwise(stored)]
    if 2 * sum(jumps) > len(jumps):
        return
    asked = [one for one in stored if one.content.requested is not None]
    own = [one for one in asked if one.requester.user == write.requester.user]
    lost = _in_each(_asked(write), own[-_TIMES_NOT_KEPT:-1])
    since = own[-_TIMES_NOT_KEPT].time if len(own) >= _TIMES_NOT_KEPT else 0.0
    lost = [one for one in lost if not _is_taken_back(one, stored, since)]
    if lost:
        yield _signal_not_kept(
            write, lost, "it is stored each time, and nobody is seen to take it back"
        )


def _asked(write: Write) -> list[Change]:
    """Return the fields that a write asks for and that are not stored as yet."""
    found = [one for one in write.content.requested or () if one.key[0] not in _NOT_MEANT]
    return [one for one in found if not (one.holds_time or one.removed)][:_MOST_LEAVES]


def _in_each(asked: Sequence[Change], writes: Sequence[Write]) -> list[Change]:
    """Return those that each of the other writes asks for as well, in place of the same value."""
    if len(writes) < _TIMES_NOT_KEPT - 1:
        return []
    each = [{(one.key, one.before, one.after) for one in _asked(it)} for it in writes]
    return [one for one in asked if all((one.key, one.before, one.after) in some for some in each)]


def _is_taken_back(change: Change, stored: Sequence[Write], since: float) -> bool:
    """Whether a stored write is seen to have undone the change."""
    back: tuple[Path, object, object] = change.key, change.after, change.before
    return any(
        (one.key, one.before, one.after) == back
        for write in stored
        if write.time >= since
        for one in write.content.admitted
    )


def _signal_not_kept(write: Write, lost: Sequence[Change], what: str) -> Signal:
    version = write.object.version
    return Signal(
        Blame.REQUESTER,
        tuple(one.pointer for one in lost),
        f"{write.requester.user} asks for the same {field_names(lost)} again and again, in version "
        f"{version}: {what}",
        (write.requester,),
        evidence={"version": version},
    )
