"""Evidence for and against each of several webhooks that may have changed a write.

A write that came through unchanged speaks for every webhook that was called for it: most for writes
of the same place in the API, less for other writes of the same sort (of status, or not), since a
webhook with an old type knows but some kinds. A finding in which a webhook stands alone speaks
against it everywhere.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

MOST_PLACES: Final = 2_000
_FEW: Final = 2
_TIMES: Final = 3


class ResourceKind(NamedTuple):
    """A resource and subresource, for which webhooks are called alike."""

    group: str
    resource: str
    subresource: str

    @property
    def is_status(self) -> bool:
        """Return whether it is the status."""
        return self.subresource == "status"


class BlameScore(NamedTuple):
    """How little speaks against a webhook; the lowest score is the most suspicious one."""

    unproved: bool
    unharmed_here: int
    unharmed_elsewhere: int
    doubtful: int
    alone_in: int

    def stands_out_from(self, other: "BlameScore") -> bool:
        """Whether the difference is more than chance would make."""
        if self.unproved != other.unproved:
            return not self.unproved
        if self.unharmed_here != other.unharmed_here:
            return other.unharmed_here >= _TIMES * self.unharmed_here + _FEW
        if self.unharmed_elsewhere != other.unharmed_elsewhere:
            return other.unharmed_elsewhere >= _TIMES * self.unharmed_elsewhere + _FEW
        return self.doubtful == other.doubtful and self.alone_in < other.alone_in


class Shared(NamedTuple):
    """What the findings of one kind have in common: who stood alone, and how often each stood."""

    alone: frozenset[str]
    support: Mapping[str, int]


NOTHING_SHARED: Final = Shared(frozenset(), {})


def share(candidates: Iterable[Collection[str]]) -> Shared:
    """Return what the candidates of all findings of one detector have in common."""
    support: Counter[str] = Counter()
    alone: set[str] = set()
    for names in candidates:
        support.update(dict.fromkeys(names, 1))
        if len(names) == 1:
            alone.update(names)
    return Shared(frozenset(alone), support)


class Evidence:
    """Counts by webhook. Bounded."""

    def __init__(self) -> None:
        self._here: Counter[tuple[ResourceKind, str]] = Counter()
        self._anywhere: Counter[tuple[bool, str]] = Counter()

    def record_unchanged(self, names: Iterable[str], where: ResourceKind) -> None:
        """Count a write that each of these webhooks left unchanged."""
        for name in names:
            for counter, key in ((self._here, (where, name)), (self._anywhere, _sort(where, name))):
                if key in counter or len(counter) < MOST_PLACES:
                    counter[key] += 1  # type: ignore[index]

    def unchanged_calls(self, name: str) -> int:
        """Return how many writes this webhook left unchanged, of status and of everything else."""
        return self._anywhere[True, name] + self._anywhere[False, name]

    def weigh(
        self,
        names: Iterable[str],
        shared: Shared,
        where: ResourceKind,
        doubts: Mapping[str, int],
    ) -> dict[str, BlameScore]:
        """Return the score of each candidate; `shared` is about all findings of the detector."""
        return {
            name: BlameScore(
                name not in shared.alone,
                self._here[where, name],
                self._anywhere[_sort(where, name)],
                doubts.get(name, 0),
                -shared.support.get(name, 0),
            )
            for name in names
        }


def _sort(where: ResourceKind, name: str) -> tuple[bool, str]:
    return where.is_status, name
