"""What people have said about findings: acknowledged or silenced, why, by whom and until when.

Acknowledged  somebody works on it. It is shown, and alerts go on.
Silenced      the same, and no alert notifies anybody until the end. A finding that becomes worse
              than it was when it was silenced notifies again.

Replicas hold the same entries without asking each other: of two entries about one finding the later
one counts (`merge`). So an end that comes early is an entry as well, which lives as long as the one
that it ends would have lived.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Annotated, Final

import msgspec
from msgspec import structs

from genguard.detection.finding import Finding, Severity
from genguard.detection.ledger import Row

MOST_SILENCES: Final = 500
MOST_REASON: Final = 300
"""Characters of a reason."""
MOST_BY: Final = 100
"""Characters of a name."""
MOST_SECONDS: Final = 30 * 86_400.0
"""The longest time until the end: what is silenced for ever is forgotten for ever."""
_SKEW_SECONDS: Final = 86_400.0
"""How far the clocks of replicas may differ."""
_RANKS: Final = {severity: rank for rank, severity in enumerate(Severity)}


class TooManySilencesError(Exception):
    """There is no room for another one."""


class Action(StrEnum):
    """What somebody did."""

    ACKNOWLEDGED = "acknowledged"
    SILENCED = "silenced"
    ENDED = "ended"


class Silence(msgspec.Struct, frozen=True):
    """One entry about one finding.

    by        who, as given: nobody checks it
    at        when it was made, in Unix seconds; of two entries the later one counts
    until     when it ends
    severity  of the finding at that time
    """

    finding: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    action: Action
    reason: Annotated[str, msgspec.Meta(max_length=MOST_REASON)]
    by: Annotated[str, msgspec.Meta(max_length=MOST_BY)]
    at: float
    until: float
    severity: Severity

    def is_silent(self, finding: Finding | None) -> bool:
        """Whether nobody is to be notified of its finding, None if that is not known any more."""
        is_worse = finding is not None and _RANKS[finding.severity] > _RANKS[self.severity]
        return self.action is Action.SILENCED and not is_worse

    @property
    def _order(self) -> tuple[float, str, str, str, float]:
        return self.at, self.action, self.reason, self.by, self.until


class Silences:
    """The latest entry of each finding, at most MOST_SILENCES. Past ones are forgotten.

    It is a PersistentPart of a StatePersister. The caller gives the time, in Unix seconds.
    """

    def __init__(self) -> None:
        self._known: Final[dict[str, Silence]] = {}
        self.version = 0
        """Differs after every change."""

    def __len__(self) -> int:
        return len(self._known)

    def put(self, silence: Silence, now: float) -> Silence:
        """Take a new entry and return it as it is kept. Raises TooManySilencesError.

        It counts even if the clock was set back since the entry before.
        """
        self._forget_past(now)
        before = self._known.get(silence.finding)
        if before is not None:
            silence = structs.replace(silence, at=max(silence.at, before.at + 0.001))
        elif not self._has_room():
            raise TooManySilencesError
        self._keep(silence)
        return silence

    def end(self, finding: str, by: str, now: float) -> Silence | None:
        """End the entry of a finding early; None if there is none."""
        found = self.find(finding, now)
        if found is None:
            return None
        return self.put(structs.replace(found, action=Action.ENDED, by=by, at=now), now)

    def find(self, finding: str, now: float) -> Silence | None:
        """Return what holds for a finding now; None if nothing does."""
        found = self._known.get(finding)
        return found if found is not None and _holds(found, now) else None

    def current(self, now: float) -> tuple[Silence, ...]:
        """Return what holds now, the first to end first."""
        found = [one for one in self._known.values() if _holds(one, now)]
        return tuple(sorted(found, key=lambda one: (one.until, one.finding)))

    def all(self, now: float) -> tuple[Silence, ...]:
        """Return what replicas share: what holds now, and what was ended early."""
        self._forget_past(now)
        return tuple(self._known[name] for name in sorted(self._known))

    def merge(self, others: Iterable[Silence], now: float) -> None:
        """Take entries of other replicas where they are later, and not too far in the future."""
        for one in others:
            before = self._known.get(one.finding)
            is_later = before is None or one._order > before._order  # noqa: SLF001 - its own class
            is_possible = now < one.until <= now + MOST_SECONDS + _SKEW_SECONDS
            if is_later and is_possible and (before is not None or self._has_room()):
                self._keep(one)

    def marks(self) -> Iterator[tuple[str, float]]:
        """Yield the name of each row, and a value that differs once the row has changed."""
        for name, one in list(self._known.items()):  # some may come and go between two of these
            yield name, one.at

    def export(self, name: str) -> bytes | None:
        """Return the content of one row; None when it is gone by now."""
        found = self._known.get(name)
        return None if found is None else msgspec.msgpack.encode(found)

    def restore(self, rows: Iterable[Row]) -> None:
        """Load rows. Raises msgspec.MsgspecError."""
        for _, content in rows:
            self._keep(msgspec.msgpack.decode(content, type=Silence))

    def _keep(self, silence: Silence) -> None:
        self._known[silence.finding] = silence
        self.version += 1

    def _has_room(self) -> bool:
        """Whether there is room; entries that were ended make it, the oldest one first."""
        if len(self._known) < MOST_SILENCES:
            return True
        ended = [one for one in self._known.values() if one.action is Action.ENDED]
        if not ended:
            return False
        del self._known[min(ended, key=lambda one: one.at).finding]
        return True

    def _forget_past(self, now: float) -> None:
        for name in [name for name, one in self._known.items() if one.until <= now]:
            del self._known[name]


def _holds(silence: Silence, now: float) -> bool:
    return silence.action is not Action.ENDED and now < silence.until
