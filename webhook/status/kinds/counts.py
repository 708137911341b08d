"""Counters of status compared with what is wanted, and what share of it is there."""

from webhook.status.reason import Blocks, Reason


def missing(
    reasons: list[Reason], key: str, have: int, want: int, blocks: Blocks = Blocks.BOTH
) -> None:
    """Add `status.readyReplicas 2, want 3` unless enough are there."""
    if have < want:
        reasons.append(Reason(f"status.{key}", have, str(want), "", blocks))


def inexact(reasons: list[Reason], key: str, have: int, want: int) -> None:
    """Add `status.replicas 4, want 3` unless it is exactly so."""
    if have != want:
        reasons.append(Reason(f"status.{key}", have, str(want)))


def share(desired: int, *counts: int) -> float:
    """The least of the counts over what is desired, from 0 to 1; 1 when nothing is desired."""
    if desired <= 0:
        return 1.0
    return round(min(1.0, min(counts) / desired), 2)
