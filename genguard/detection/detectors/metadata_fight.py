"""Two writers set a label, an annotation, a finalizer or an owner against each other.

Reads   what each writer asked of metadata, and the stored values of each leaf
Acts on writes that are known to have changed the stored metadata
Result  blames both writers
Relies  on writes that are about nothing else: a tool that also stamps a shared annotation whenever
        it has something of its own to write fights nobody (kubernetes.io/change-cause). Beside a
        label that is fought over, an annotation of its own is the stamp. An annotation that one
        sets and another takes away is a question and its answer (as argocd.argoproj.io/refresh),
        unless it is asked again at once, many times, or sooner than it is answered
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import ClassVar, Final

from genguard.detection.changes import Change
from genguard.detection.detectors.alternation import Turn, change_hands, fighters_of
from genguard.detection.detectors.detector import Blame, Detector, Signal, Sort
from genguard.detection.digest import NO_DIGEST
from genguard.detection.history import ObjectHistory
from genguard.detection.metadata import ANNOTATIONS
from genguard.detection.write import Requester, Write
from genguard.objects.pointer import Path

_TURNS: Final = 20
_SECONDS: Final = 3_600.0
_AT_ONCE_SECONDS: Final = 5.0
_AT_ONCE: Final = 8
"""So many times in a row an annotation is set again so soon after it was taken away: no question is
asked so often."""
_NO_SOONER: Final = 3
_AS_SOON: Final = 1.25
"""So many times in a row, in the median, who asks is not slower than who answers, within so much.
Questions are asked at leisure, and answered at once. This holds at any pace, and one long pause
changes nothing."""


class MetadataFight(Detector):
    """See the module."""

    name: ClassVar[str] = "metadata-fight"
    stored_only_if: ClassVar[Sort] = "changed_metadata"

    def judge_stored(self, write: Write, past: ObjectHistory) -> Iterator[Signal]:
        """Yield one signal for a write that turned something back."""
        since = write.time - _SECONDS
        recent = [one for one in past.stored if one.changed_metadata and one.time >= since]
        if not change_hands(one.requester.user for one in recent):
            return
        asked = _asked(write)
        turns = _turns((change.key for change in asked), recent)
        fighters = {key: _fighters(some) for key, some in turns.items()}
        fought = [change for change in asked if fighters[change.key]]
        if not fought:
            return
        newest = write.requester
        others = {one.user: one for change in fought for one in fighters[change.key]}
        others.pop(newest.user)
        names = " and ".join((newest.user, *others))
        own = [key for key, some in turns.items() if _is_of_one(some)]
        is_beside = _changes_more(write) or any(_is_work(key, fought) for key in own)
        is_answer = all(_is_answered(change.key, turns[change.key]) for change in fought)
        yield Signal(
            Blame.EITHER if write.metadata.requested is None else Blame.REQUESTER,
            tuple(dict.fromkeys(change.pointer for change in fought)),
            f"{names} turn {len(fought)} field(s) of metadata to and fro",
            (newest, *others.values()),
            minor=is_beside or is_answer,
        )


def _asked(write: Write) -> list[Change]:
    """What the requester made of the stored metadata, without what other webhooks made of it."""
    made = [one for one in write.metadata.admitted if not one.holds_time]
    if write.metadata.requested is None:
        return made
    asked = {one.key: one.after for one in write.metadata.requested}
    return [one for one in made if one.key in asked and asked[one.key] == one.after]


def _turns(keys: Iterable[Path], recent: Sequence[Write]) -> dict[Path, list[Turn]]:
    """The latest values of each leaf with who asked for them, oldest first."""
    turns: dict[Path, list[Turn]] = {key: [] for key in keys}
    for one in recent:
        for change in _asked(one):
            if change.key in turns:
                turns[change.key].append(Turn(change.after, one.requester, one.time))
    return {key: some[-_TURNS:] for key, some in turns.items()}


def _changes_more(write: Write) -> bool:
    """Whether it changed anything but metadata."""
    changed = write.content.admitted
    return not changed.is_compared or any(one.key[0] != "metadata" for one in changed)


def _is_of_one(turns: Sequence[Turn]) -> bool:
    """Whether one writer alone has lately set a leaf."""
    return len({one.requester.user for one in turns}) == 1


def _is_work(own: Path, fought: Iterable[Change]) -> bool:
    """Whether a leaf that one alone sets may be what its writes are about, and not a stamp."""
    return own[1] != ANNOTATIONS or all(one.key[1] == ANNOTATIONS for one in fought)


def _fighters(turns: Sequence[Turn]) -> list[Requester]:
    """Who turns a leaf back; where one takes away what another sets, its values may be new."""
    found = fighters_of(turns)
    if found or not _is_set_and_removed(turns):
        return found
    return fighters_of(
        [one if one.value is None else one._replace(value=NO_DIGEST) for one in turns]
    )


def _is_set_and_removed(turns: Sequence[Turn]) -> bool:
    """Whether a leaf is set by some, and taken away by others alone."""
    setters = {one.requester.user for one in turns if one.value is not None}
    removers = {one.requester.user for one in turns if one.value is None}
    return bool(removers) and not setters & removers


def _is_answered(key: Path, turns: Sequence[Turn]) -> bool:
    """Whether an annotation is set by some and taken away by others, at the pace of questions."""
    if key[1] != ANNOTATIONS or not _is_set_and_removed(turns):
        return False
    asked, answered = (
        [
            one.time - before.time
            for before, one in pairwise(turns)
            if (before.value is None, one.value is None) == (is_asked, not is_asked)
        ]
        for is_asked in (True, False)
    )
    if len(asked) >= _AT_ONCE and max(asked[-_AT_ONCE:]) <= _AT_ONCE_SECONDS:
        return False
    return len(asked) < _NO_SOONER or (
        median(asked[-_NO_SOONER:]) > _AS_SOON * median(answered[-_NO_SOONER:])
    )
