"""Reconciling and Stalled, which kstatus lets any kind carry, and failures of this generation."""

from typing import Final

from webhook.status.conditions import FALSE, TRUE, read_conditions
from webhook.status.judgement import Judgement
from webhook.status.observed import as_generation
from webhook.status.reason import Blocks, Reason
from webhook.status.subject import Subject

_DECLARED: Final = ("Reconciling", "Stalled")


def with_declared(subject: Subject, judgement: Judgement) -> Judgement:
    """Add to a built-in kind's judgement what a condition declares that its rules do not know.

    Reconciling is not settled; Stalled is not ready, and given up: nothing more is planned.
    """
    items = subject.status.get("conditions")
    if not isinstance(items, list) or not any(
        isinstance(item, dict) and item.get("type") in _DECLARED and item.get("status") == TRUE
        for item in items
    ):
        return judgement
    conditions = read_conditions(subject)
    reasons = list(judgement.reasons)
    failed = judgement.failed
    stalled, reconciling = conditions.true("Stalled"), conditions.true("Reconciling")
    if stalled is not None and not stalled.stale(subject.generation):
        reasons = [_no_more_planned(reason) for reason in reasons]
        reasons.append(stalled.blocking(FALSE, Blocks.READY))
        failed = True
    if reconciling is not None:
        reasons.append(reconciling.blocking(FALSE, Blocks.SETTLED))
    return judgement._replace(reasons=reasons, failed=failed)


def current_failures(subject: Subject) -> list[Reason]:
    """Stalled or Failed that say themselves to speak of this generation.

    They hold even while status.observedGeneration lags: Flux raises that one only on success.
    """
    conditions = read_conditions(subject)
    return [
        found.blocking(FALSE, Blocks.READY)
        for found in map(conditions.true, ("Stalled", "Failed"))
        if found is not None and as_generation(found.observed) == subject.generation
    ]


def _no_more_planned(reason: Reason) -> Reason:
    return reason._replace(blocks=Blocks.READY) if reason.blocks is Blocks.BOTH else reason
