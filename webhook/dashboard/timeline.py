"""One object's writes, as far back as they are remembered: who, what moved, what was mended."""

from collections.abc import Iterable, Iterator
from enum import StrEnum

import msgspec

from webhook.detection.changes import Change
from webhook.detection.history import ObjectHistory
from webhook.detection.write import Write
from webhook.objects.observed import Generation, Observed, restorations
from webhook.objects.pointer import to_field_path

MOST_PATHS = 8
"""Of each write; how many more there are is told."""


class Stored(StrEnum):
    """What became of a write."""

    YES = "yes"
    UNKNOWN = "not known"
    NO = "no, it changed nothing"


class Step(msgspec.Struct, frozen=True, rename="camel"):
    """One write. Of contents there are the paths that changed, and the generations.

    others   what other webhooks changed of what was asked; null where the intent was not seen
    mended   what another webhook had cleared and genguard has put back
    lost     what was cleared and stayed so
    """

    time: float
    user: str
    field_manager: str
    subresource: str
    stored: Stored
    generation: int
    counted: bool
    observed: Generation | None
    changed: tuple[str, ...]
    changed_count: int
    others: tuple[str, ...] | None
    mended: tuple[str, ...]
    lost: tuple[str, ...]

    @property
    def actor(self) -> str:
        """Who, as one word."""
        return f"{self.user} ({self.field_manager})" if self.field_manager else self.user


def steps(known: ObjectHistory) -> tuple[Step, ...]:
    """Oldest first."""
    stored = {id(one) for one in known.stored}
    return tuple(_step(one, is_stored=id(one) in stored) for one in known.writes)


def _step(write: Write, *, is_stored: bool) -> Step:
    known = Stored.YES if is_stored else Stored.UNKNOWN
    changed, others = write.pointers(), write.webhook_diff
    return Step(
        time=write.time,
        user=write.requester.user,
        field_manager=write.requester.manager,
        subresource=write.subresource,
        stored=known if write.changed_something else Stored.NO,
        generation=write.generation_after,
        counted=write.counted,
        observed=write.observed_after.own,
        changed=changed[:MOST_PATHS],
        changed_count=len(changed),
        others=None if others is None else tuple(_paths((*others, *write.reinvocation_diff))),
        mended=tuple(_between(write.observed_sent, write.observed_after)),
        lost=tuple(_between(write.observed_after, write.observed_asked)),
    )


def _between(cleared: Observed, wanted: Observed) -> Iterator[str]:
    """The fields that one of two has and the other has not."""
    for one in restorations(wanted, cleared):
        yield to_field_path(one.path)


def _paths(found: Iterable[Change]) -> Iterator[str]:
    for one, _ in zip(found, range(MOST_PATHS), strict=False):
        yield one.pointer
