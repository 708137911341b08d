"""What somebody set is lost: another webhook, or a writer of an older type, takes it away."""

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, Final

from genguard.detection.changes import Change
from genguard.detection.damage import MOST_LOST, Damage, LostField, lost_values
from genguard.detection.detectors.detector import Blame, Detector, Signal, Sort
from genguard.detection.diff import Diff
from genguard.detection.history import ObjectHistory
from genguard.detection.metadata import ANNOTATIONS
from genguard.detection.write import Write
from genguard.objects.fields import Path, to_pointer
from genguard.objects.observed import Generation, Observed, Restoration, restorations


class ObservedGenerationCleared(Detector):
    """An observedGeneration that was set is cleared.

    Reads   every observedGeneration of the status: stored, asked, after other webhooks, as it came
            out
    Acts on writes of status
    Result  blames other webhooks for what was asked and gone at /mutate; a requester only for what
            somebody else had set, since controllers write old and empty values of their own. Where
            the intent was not seen either may have done it; a value that the server or genguard had
            to put back was then cleared by one of them. A value that is not stored is damage
    Relies  on KEP-5067 (Infinite loop caused by misbehaving mutating webhooks)
    """

    name: ClassVar[str] = "observed-generation-cleared"
    only_if: ClassVar[Sort] = "writes_status"

    def judge(self, write: Write, past: ObjectHistory) -> Iterator[Signal]:
        """Yield at most one signal for a write."""
        if write.content.webhook is not None:
            gone = list(restorations(write.observed_asked, write.observed_sent))
            if gone:
                yield Signal(
                    Blame.OTHERS,
                    _pointers_of_values(gone),
                    f"another webhook cleared {len(gone)} observedGeneration value(s) that "
                    f"{write.requester.user} sent",
                    evidence={"asked": gone[0].value},
                    damage=_damage_of_values(write.observed_asked, write, write.requester.user),
                    averted=_averted(write),
                )
                return
        gone = list(restorations(write.observed_before, write.observed_asked))
        of_another = [one for one in gone if _set_by_another(one, write, past)]
        if of_another:
            yield Signal(
                Blame.REQUESTER if write.content.requested is not None else Blame.EITHER,
                _pointers_of_values(of_another),
                f"{write.requester.user} cleared {len(of_another)} observedGeneration value(s) "
                "that somebody else had set",
                (write.requester,),
                evidence={"stored": of_another[0].value},
                damage=_damage_of_values(write.observed_before, write, ""),
            )
        elif gone and write.content.requested is None and not _is_gone(gone, write.observed_after):
            yield Signal(
                Blame.EITHER,
                _pointers_of_values(gone),
                f"{len(gone)} observedGeneration value(s) were cleared in a write of "
                f"{write.requester.user}, and put back before it was stored",
                evidence={"stored": gone[0].value},
            )


def _averted(write: Write) -> Damage | None:
    """What other webhooks cleared of what the requester sent."""
    lost = lost_values(write.observed_asked, write.observed_sent)
    return Damage(lost=lost, writer=write.requester.user) if lost else None


def _damage_of_values(sent: Observed, write: Write, writer: str) -> Damage | None:
    """The values that did not come back before the write was stored."""
    lost = lost_values(sent, write.observed_after)
    return Damage(lost=lost, writer=writer) if lost else None


def _pointers_of_values(gone: Iterable[Restoration]) -> tuple[str, ...]:
    return tuple(to_pointer(one.path) for one in gone)


def _set_by_another(one: Restoration, write: Write, past: ObjectHistory) -> bool:
    """Whether the last who set it, of those that are remembered, was not this requester."""
    if not past.several_wrote_status:
        return False
    kind = _condition(one.path, write.observed_asked)
    for earlier in reversed(past.earlier):
        before, asked = (
            _values(kind, it) for it in (earlier.observed_before, earlier.observed_asked)
        )
        if earlier.writes_status and asked != before and any(asked):
            return earlier.requester.user != write.requester.user
    return False


def _condition(path: Path, found: Observed) -> str | None:
    """The type of the condition that a value is of; None for the status' own."""
    if "conditions" not in path:
        return None
    _, _, index, _ = path
    return found.conditions[int(index)].type


def _values(kind: str | None, found: Observed) -> list[Generation | None]:
    """Of the conditions of a type, which is one condition nearly always; None for the own."""
    if kind is None:
        return [found.own]
    return [one.observed for one in found.conditions if one.type == kind]


def _is_gone(gone: Iterable[Restoration], after: Observed) -> bool:
    """Whether nothing of it came back."""
    own = after.own is None
    conditions = all(one.observed is None for one in after.conditions)
    return all(conditions if "conditions" in one.path else own for one in gone)


_SECONDS: Final = 20.0
_OWN_DETECTOR: Final = frozenset({"observedGeneration", "terminatingReplicas"})


class StatusClobbered(Detector):
    """Status that was written is lost: by another webhook, or by a writer of an older type.

    Reads   what was asked of status and what was left of it at /mutate; who had set what is removed
    Acts on writes of status
    Result  blames other webhooks for leaves that were sent and are changed or gone; blames a
            requester whose round trip drops leaves that somebody else had set (the "old struct"
            clobber: kubernetes-sigs/kueue#2878, kubernetes/kubernetes#96688). Users who approve
            take fields of a status away as well (kubectl argo rollouts promote), but not every few
            seconds
    Relies  on observed-generation-cleared and terminating-replicas-dropped for their own fields
    """

    name: ClassVar[str] = "status-clobbered"
    only_if: ClassVar[Sort] = "writes_status"

    def judge(self, write: Write, past: ObjectHistory) -> Iterator[Signal]:
        """Yield at most one signal for a write."""
        others = write.content.webhook or ()
        lost = [one for one in others if not one.added and _is_ours(one, others)]
        if lost:
            yield Signal(
                Blame.OTHERS,
                _pointers_of_status(lost),
                f"another webhook changed {len(lost)} status field(s) that "
                f"{write.requester.user} sent",
                damage=_damage_of_status(lost, write),
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
                _pointers_of_status(dropped),
                f"{write.requester.user} dropped {len(dropped)} status field(s) that "
                f"{' and '.join(users)} had set",
                (write.requester,),
                minor=_is_slow(write, past),
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


def _pointers_of_status(found: Sequence[Change]) -> tuple[str, ...]:
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


_KEY: Final = ("status", "terminatingReplicas")
_POINTER: Final = "/status/terminatingReplicas"


class TerminatingReplicasDropped(Detector):
    """status.terminatingReplicas was reported and is gone: absent is not 0.

    Reads   status.terminatingReplicas as stored, asked, and left by other webhooks
    Acts on writes of status of Deployments and ReplicaSets
    Result  blames other webhooks, or a requester who drops what somebody else reports
    Relies  on KEP-3973: the field is a pointer, and controllers older than it never write it
    """

    name: ClassVar[str] = "terminating-replicas-dropped"
    only_if: ClassVar[Sort] = "writes_status"

    def judge(self, write: Write, past: ObjectHistory) -> Iterator[Signal]:
        """Yield at most one signal for a write."""
        if write.content.webhook and _is_dropped(write.content.webhook):
            message = f"another webhook dropped what {write.requester.user} reported"
            yield Signal(Blame.OTHERS, (_POINTER,), message)
            return
        requested = write.content.requested
        if requested and past.several_wrote_status and _is_dropped(requested):
            setter = past.last_setter_but(write.requester.user, _KEY)
            if setter is not None:
                message = f"{write.requester.user} dropped what {setter.user} reports"
                yield Signal(Blame.REQUESTER, (_POINTER,), message, (write.requester,))


def _is_dropped(changes: Diff) -> bool:
    return any(change.after is None and change.key == _KEY for change in changes)


class MetadataClobbered(Detector):
    """What a requester sets in metadata is lost: another webhook takes it away or rewrites it.

    Reads   what was asked of labels, annotations, finalizers and owners, and what was left at
            /mutate; what was stored of what earlier writes asked for
    Acts on writes of the main resource whose metadata other webhooks changed
    Result  blames other webhooks for what they take away, put back to what was stored, or rewrite
            although it was asked for before; a value that is new each time and rewritten is told as
            info, for webhooks normalise values. And for what they turn back once more in a write
            that does not ask for it: a webhook may act on the writes of some users alone
    Relies  on an explicit value: a key that is added, or that a PUT leaves out and a webhook adds
            again, is a default and no loss. An annotation that is taken away in a later write is a
            question and its answer
    """

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
