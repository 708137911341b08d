"""What a file in genguard/status/kinds provides: a rule for a kind, and the result it returns."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from genguard.status.checked_object import CheckedObject
from genguard.status.view import Blocks, Reason


class KindResult(NamedTuple):
    """The answer of one rule for one object. Ready and settled follow from what `reasons` block."""

    reasons: Sequence[Reason] = ()
    failed: bool = False
    """Red. Waiting does not help: the controller gave up, or a deadline of the object passed."""
    broken: bool = False
    """Red. The object does not work now, but it may recover without help."""
    degraded: bool = False
    """Yellow, although nothing blocks."""
    progress: float | None = None
    """Completed share between 0 and 1; None where status has no counters."""
    finished: bool = False
    """The object ran to its end and will not run again."""
    patience: float = 0.0
    """Seconds beyond the deadline for which it is normal that nothing is completed."""


NOTHING_BLOCKS = KindResult()
"""Ready and settled, with nothing to add."""


class KindRule(NamedTuple):
    """How the objects of one kind are evaluated; kinds/evaluated.yaml says it in words."""

    evaluate: Callable[[CheckedObject], KindResult]
    always_observed: bool = False
    """The controller always writes status.observedGeneration: if absent, it has not acted yet."""
    needs_spec: bool = True
    """The rule reads spec, so a spec that is not a JSON object blocks."""
    waits_for_terminating: bool = False
    """The object is settled only when its terminating pods are gone (KEP-3973)."""
    status_unwritten: bool = False
    """No controller writes a status: what is stored is in force."""
    counts_replicas: bool = False
    """Status counts finished replicas. Counts of an older generation are no progress."""
    most_pods: Callable[[CheckedObject], int | None] | None = None
    """How many pods the object may have at a time, where terminating ones are left out of account;
    None where that cannot be read."""
    replaces_pods: bool = False
    """Its controller replaces Failed and Succeeded pods (kubernetes pkg/controller/
    controller_utils.go:IsPodActive). A Job counts failed pods against its backoffLimit and sets a
    condition when it gives up."""
    decides_alone: bool = False
    """Conditions Reconciling and Stalled add nothing to its result: it knows of them."""


KindRules = Mapping[tuple[str, str], KindRule]
"""Rules by (group, kind); the core group is ""."""


def require_at_least(
    reasons: list[Reason],
    key: str,
    have: int,
    want: int,
    blocks: Blocks = Blocks.BOTH,
    *,
    note: str = "",
) -> None:
    """Append `status.readyReplicas 2, want 3` when the counter `key` is below `want`."""
    if have < want:
        reasons.append(Reason(f"status.{key}", have, str(want), note, blocks))


def require_exactly(reasons: list[Reason], want: int, note: str = "", /, **counts: int) -> None:
    """Append `status.replicas 4, want 3` for each of these counters that is not `want`."""
    for key, have in counts.items():
        if have != want:
            reasons.append(Reason(f"status.{key}", have, str(want), note))


def completed_share(desired: int, *counts: int) -> float:
    """Return the lowest of the counts divided by `desired`: 0 to 1; 1 when nothing is desired."""
    if desired <= 0:
        return 1.0
    lowest = min(counts)  # a counter may be too large for a float
    return 1.0 if lowest >= desired else round(lowest / desired, 2)
