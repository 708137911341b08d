"""Lost: what somebody set is gone, taken away by a webhook, an old client or the API server."""

from collections.abc import Iterable, Sequence
from itertools import islice, pairwise
from typing import ClassVar, Final

from genguard.detection.changes import OFF, Change
from genguard.detection.damage import MOST_LOST, Damage, LostField, lost_values
from genguard.detection.diff import values
from genguard.detection.history import ObjectHistory
from genguard.detection.metadata import ANNOTATIONS
from genguard.detection.question import (
    DECLARED,
    Answers,
    ChangedBy,
    Declared,
    Question,
    own,
    signal,
)
from genguard.detection.questions.reversals import WEBHOOK, changes_of, fighters
from genguard.detection.sample import field_names
from genguard.detection.values import Digest
from genguard.detection.write import Outcome, Write
from genguard.objects.fields import Path, Token, to_pointer
from genguard.objects.observed import restorations

CLEARED: Final = DECLARED["observed-generation-cleared"]
CLOBBERED: Final = DECLARED["status-clobbered"]
TERMINATING: Final = DECLARED["terminating-replicas-dropped"]
METADATA: Final = DECLARED["metadata-clobbered"]
NOT_KEPT: Final = DECLARED["write-not-kept"]

_SECONDS: Final = 20.0
_BY_FIELD: Final[dict[Token, Declared]] = {
    "observedGeneration": CLEARED,
    "terminatingReplicas": TERMINATING,
}
"""Other fields of status are clobbered."""


def _lost_of_status(write: Write, past: ObjectHistory) -> Answers:
    """Fields of status are lost: to another webhook, or to a writer of an older type.

    Other webhooks are blamed for leaves that were sent and are changed or gone; a requester whose
    round trip drops leaves that somebody else had set (kubernetes-sigs/kueue#2878,
    kubernetes/kubernetes#96688; KEP-3973: absent is not 0; KEP-5067: an observedGeneration of 0 is
    cleared). Controllers write old and empty values of their own. Users who approve take fields of
    a status away as well (kubectl argo rollouts promote), but not every few seconds. Where nobody
    saw what was asked, a value that was gone and is stored again was cleared by somebody.
    """
    if not write.writes_status:
        return
    user, sent = write.requester.user, write.content.sent if past.several_wrote_status else ()
    changed, gone = _lost(write.content.webhook or ()), _lost(sent, is_gone=True)
    last = {
        change.key: write.requester.user
        for write in past.writes
        if gone and write.writes_status
        for change in write.content.sent
        if change.after is not None
    }
    is_unseen = write.content.requested is None
    for found in (CLEARED, CLOBBERED, TERMINATING) if changed or gone or is_unseen else ():
        what = "observedGeneration value(s)" if found is CLEARED else "status field(s)"
        setters = {change: last.get(change.key, user) for change in gone.get(found, ())}
        theirs = {change: setter for change, setter in setters.items() if setter != user}
        if lost := changed.get(found):
            did = "cleared" if found is CLEARED else "changed"
            said = f"another webhook {did} {len(lost)} {what} that {user} sent"
            yield signal(found, write, ChangedBy.OTHERS, lost, said, **_damage(found, lost, write))
        elif theirs:
            users = " and ".join(dict.fromkeys(theirs.values()))
            said = f"{user} dropped {len(theirs)} {what} that {users} had set"
            # People approve now and then, loops hurry.
            before = own(write, past.earlier, _SECONDS)
            hurries = any(found in _lost(earlier.content.sent, is_gone=True) for earlier in before)
            numbers = lost_values(write.observed_before, write.observed_after)
            damage = Damage(numbers) if found is CLEARED and numbers else None
            more = {"minor": found is CLOBBERED and not hurries, "damage": damage}
            yield signal(found, write, ChangedBy.of(write.content), theirs, said, **more)
        elif found is CLEARED and is_unseen:
            ends = write.observed_asked, write.observed_after
            back, left = ([*restorations(write.observed_before, end)] for end in ends)
            if len(back) > len(left):
                said = f"a write of {user} lost {len(back)} {what}, put back since"
                paths = [to_pointer(restored.path) for restored in back]
                yield signal(found, write, ChangedBy.EITHER, paths, said, requesters=())


def _lost(changes: Iterable[Change], *, is_gone: bool = False) -> dict[Declared, list[Change]]:
    """Return the leaves of status that are lost, by the finding that is about them.

    is_gone  no value is left
    """
    removed = [change.key for change in changes if change.removed]
    if is_gone and not (removed or any(change.key[-1] in _BY_FIELD for change in changes)):
        return {}  # as of most writes
    # Of a condition that is gone as a whole, the type is gone as well.
    items = {key[:-1] for key in removed if key[-1] == "type"}
    # An empty list that is filled is a leaf that goes.
    added = (change.key for change in changes if removed and change.added)
    filled = {key[:depth] for key in added for depth in range(1, len(key) + 1)}
    lost: dict[Declared, list[Change]] = {}
    for change in sorted(changes, key=lambda change: len(change.key)):
        found = _BY_FIELD.get(change.key[-1], CLOBBERED)
        is_lost = change.removed if is_gone or found is TERMINATING else not change.added
        if found is CLEARED:
            is_lost = (
                change.before not in OFF and change.after in OFF and change.key[:-1] not in items
            )
        is_filled = change.removed and change.key in filled
        if change.key[0] == "status" and is_lost and not is_filled:
            lost.setdefault(found, []).append(change)
    return lost


def _damage(found: Declared, lost: Sequence[Change], write: Write) -> dict[str, Damage | None]:
    """Return what is wrong because webhooks changed leaves, and what would be without genguard.

    Conditions and removed fields that were not repaired before the write was stored. Another field
    with another value is not damage: webhooks normalise values, and their writers accept that.
    """
    if found is CLEARED:
        user, asked = write.requester.user, write.observed_asked
        left = {"damage": write.observed_after, "prevented": write.observed_sent}
        return {key: Damage(lost_values(asked, end), user) or None for key, end in left.items()}
    # A value that a write stores as it was is no change.
    unchanged = {change.key: change.before for change in write.content.requested or ()}
    stored = unchanged | values(write.content.admitted)
    meant = [change for change in lost if change.removed or change.key[1:2] == ("conditions",)]
    ends = [(change, stored.get(change.key, change.before)) for change in meant[:MOST_LOST]]
    fields = tuple(LostField(change.key, end) for change, end in ends if end != change.before)
    return {"damage": Damage(fields=fields) or None}


def _lost_of_metadata(write: Write, past: ObjectHistory) -> Answers:
    """A value that a requester sets in metadata is lost: another webhook removes or rewrites it.

    Webhooks are blamed for what they take away, put back to what was stored, or rewrite although
    it was asked for before; a value that is new each time and rewritten is told as info, for
    webhooks normalise values. And for what they change back once more in a write that does not ask
    for it: a webhook may act on the writes of some users alone. A key that is added, or that a PUT
    leaves out and a webhook adds again, is a default and no loss. An annotation that is taken away
    in a later write is a question and its answer.
    """
    if not write.is_mutated or write.subresource:
        return
    lost, changed_back = write.metadata.rewritten, _reversed_again(write, past)
    setters = {asked: write.requester.user for asked, _ in lost} | changed_back
    if setters:
        users = " and ".join(dict.fromkeys(setters.values()))
        said = f"another webhook changed {len(setters)} field(s) of metadata that {users} had set"
        minor = not changed_back and not any(_is_lost(*pair, write, past) for pair in lost)
        yield signal(METADATA, write, ChangedBy.OTHERS, setters, said, minor=minor)


def _is_lost(asked: Change, left: Change, write: Write, past: ObjectHistory) -> bool:
    """Whether it is gone, put back, or asked for again since the value of webhooks was stored.

    A write that is tried again after a conflict asks again as well, and finds the old value.
    """
    if left.removed or left.after == asked.before:
        return True
    return any(
        before.key == asked.key and before.after == asked.after and made.after == asked.before
        for earlier in own(write, past.earlier)
        for before, made in earlier.metadata.rewritten
    )


def _reversed_again(write: Write, past: ObjectHistory) -> dict[Change, str]:
    """What webhooks changed back once more although the write does not ask for it, and whose."""
    asked, net = values(write.metadata.requested), values(write.metadata.admitted)
    made = [
        change
        for change in write.metadata.webhook or ()
        if change.key in net and change.key not in asked and change.before is not None
        if not (change.removed and change.key[1] == ANNOTATIONS)
    ]
    series = changes_of(made, (*past.stored, write), webhooks=True) if made else {}
    fought = {change: fighters(series.get(change.key, ())) for change in made}
    return {
        change: next(setter.user for setter in each if setter is not WEBHOOK)
        for change, each in fought.items()
        if WEBHOOK in each
    }


_EARLIER: Final = 5
"""So many writes have asked for the same before."""
_SECONDS_NOT_KEPT: Final = 3_600.0
_MOST_LEAVES: Final = 20


def _not_kept(write: Write, past: ObjectHistory) -> Answers:
    """The same change is asked for again and again, each time in the same place, and is gone again.

    The API server drops it; or it is stored, and nobody is seen to take it back: then generation
    must not have moved unseen between most of these writes, else somebody whose reviews were lost
    may have taken it back. The writer is named with the version of the API that it uses: a
    conversion between two versions of a custom resource may not know the field, or a strategy
    drops it.
    """
    is_stored = write.outcome is Outcome.STORED
    is_meant = write.counted if is_stored else write.has_outcome and not write.changed_anything
    if not is_meant or write.subresource or write.content.webhook or not (asked := _asked(write)):
        return
    oldest = write.time - _SECONDS_NOT_KEPT
    stored = [kept for kept in past.stored if is_stored and kept.counted and kept.time > oldest]
    among = stored[:-1] if is_stored else past.earlier
    asking = (
        earlier for earlier in own(write, among, _SECONDS_NOT_KEPT) if not earlier.subresource
    )
    mine = [*islice(filter(_asked, asking), _EARLIER)]
    if len(mine) < _EARLIER:
        return
    jumps = [was.generation_after != now.generation_before for was, now in pairwise(stored)]
    since = (kept.content.admitted for kept in stored if kept.time >= mine[-1].time)
    taken = {(change.key, change.after, change.before) for diff in since for change in diff}
    again = (asked.keys() - taken).intersection(*map(_asked, mine))
    lost = [change for step, change in asked.items() if step in again]
    if lost and 2 * sum(jumps) <= len(jumps):
        of, user, version = write.object, write.requester.user, write.object.version
        said = f"{user} asks again and again for {field_names(lost, of)}, in version {version}: "
        how = "it is stored each time, and nobody is seen to take it back"
        said += how if is_stored else "and the API server drops it"
        yield signal(
            NOT_KEPT, write, ChangedBy.REQUESTER, lost, said, evidence={"version": version}
        )


_Step = tuple[Path, Digest | None, Digest | None]


def _asked(write: Write) -> dict[_Step, Change]:
    """Return the fields that a write asks for, by path, old value and new value."""
    asked = [
        change
        for change in write.content.requested or ()
        if change.key[0] not in ("status", "metadata") and not (change.holds_time or change.removed)
    ]
    return {(change.key, change.before, change.after): change for change in asked[:_MOST_LEAVES]}


class Lost(Question):
    """See the module."""

    findings: ClassVar = (CLEARED, CLOBBERED, TERMINATING, METADATA, NOT_KEPT)
    seen = (_lost_of_status, _lost_of_metadata, _not_kept)
    stored = (_not_kept,)
