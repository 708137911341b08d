"""What the rules of one kind find in one object: reasons, and how bad they are."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from webhook.status.reason import Reason
from webhook.status.subject import Subject


class Judgement(NamedTuple):
    """One kind's answer. Ready and settled follow from what the reasons block."""

    reasons: Sequence[Reason] = ()
    failed: bool = False
    """Red, and to wait longer does not help: given up, or past the deadline of the object."""
    broken: bool = False
    """Red, though it may come right by itself: it does not function now."""
    degraded: bool = False
    """Yellow, although nothing blocks."""
    progress: float | None = None
    finished: bool = False
    """It ran to its end and will not run again."""


GOOD = Judgement()
Judge = Callable[[Subject], Judgement]


class Kind(NamedTuple):
    """How the objects of one kind are judged."""

    judge: Judge
    observes: bool = False
    """Its controller writes status.observedGeneration always: without one it has not acted."""
    by_spec: bool = True
    """Its rules need spec: one that is no object blocks."""
    drains: bool = False
    """It is settled only when its terminating pods are gone (KEP-3973)."""
    silent: bool = False
    """Nobody writes a status: what is stored is in force."""
    counts: bool = False
    """Its status counts what is done; the counts of an older intent are no progress."""
