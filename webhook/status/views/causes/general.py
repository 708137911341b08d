"""Causes of disagreement that any kind can have: deletion, generation, conditions, wrong types."""

from typing import Final

from webhook.status.views.argo.assess import is_hook
from webhook.status.views.causes.cause import EVERY_KIND, Cause
from webhook.status.views.evidence import Evidence, Outcome, Tool
from webhook.status.views.kstatus.compute import RULES
from webhook.status.views.reading import kind_of


def _deleted(it: Evidence) -> bool:
    return it.text("metadata", "deletionTimestamp") != ""


def _stale_condition(it: Evidence) -> bool:
    generation = it.at("metadata", "generation")
    observed = (condition.get("observedGeneration") for condition in it.conditions())
    return isinstance(generation, int) and any(
        isinstance(number, int) and number < generation for number in observed
    )


def _repeated_condition(it: Evidence) -> bool:
    kinds = [str(condition.get("type")) for condition in it.conditions()]
    return len(kinds) > len(set(kinds))


def _has_no_rule(it: Evidence) -> bool:
    return kind_of(it.document).name not in RULES


def _is_current(it: Evidence) -> bool:
    return it.outcome(Tool.KSTATUS) is Outcome.DONE


BEFORE: Final = (
    Cause(
        EVERY_KIND,
        Tool.ARGO,
        lambda it: _deleted(it) and is_hook(it.document),
        "it is being deleted, and Argo CD judges what has its hook finalizer as if it were not",
    ),
    Cause(
        EVERY_KIND,
        Tool.KUBECTL,
        _deleted,
        "it is being deleted, which kubectl rollout status does not look at",
    ),
    Cause(
        EVERY_KIND,
        Tool.KSTATUS,
        _deleted,
        "it is being deleted, which is all that kstatus looks at then",
    ),
    Cause(
        EVERY_KIND,
        Tool.KSTATUS,
        lambda it: it.observed() and it.lag() < 0,
        "status.observedGeneration is ahead of metadata.generation: kstatus wants them equal, "
        "Argo CD and kubectl accept it",
    ),
    Cause(
        EVERY_KIND,
        Tool.KSTATUS,
        lambda it: it.observed() and it.lag() > 0,
        "status.observedGeneration is behind metadata.generation: kstatus waits for it for every "
        "kind, Argo CD and kubectl for workloads alone",
    ),
    Cause(
        EVERY_KIND,
        Tool.KSTATUS,
        lambda it: it.true("Reconciling"),
        "kstatus goes by the condition Reconciling, at which Argo CD and kubectl do not look",
    ),
    Cause(
        EVERY_KIND,
        Tool.KSTATUS,
        lambda it: it.true("Stalled"),
        "kstatus goes by the condition Stalled, at which Argo CD and kubectl do not look",
    ),
    Cause(
        EVERY_KIND,
        Tool.GENGUARD,
        lambda it: not it.done and it.count("terminatingReplicas") > 0,
        "status.terminatingReplicas: pods are still going away, at which no other tool looks",
    ),
)
"""Asked before the causes of the kind."""

AFTER: Final = (
    Cause(
        EVERY_KIND,
        Tool.ARGO,
        lambda it: it.outcome(Tool.ARGO) is Outcome.UNREADABLE,
        "Argo CD does not know this status.phase",
    ),
    Cause(
        EVERY_KIND,
        Tool.KSTATUS,
        _repeated_condition,
        "conditions of one type stand there more than once: kstatus looks at all of them, Argo CD "
        "and kubectl at the first",
    ),
    Cause(
        EVERY_KIND,
        Tool.KSTATUS,
        lambda it: _has_no_rule(it) and _is_current(it) and _stale_condition(it),
        "a condition is of an older generation: kstatus does not look at a condition's own "
        "observedGeneration",
    ),
    Cause(
        EVERY_KIND,
        Tool.KSTATUS,
        lambda it: _has_no_rule(it) and bool(it.condition("Ready")),
        "kstatus has no rule for this kind and goes by the condition Ready alone",
    ),
    Cause(
        EVERY_KIND,
        Tool.KSTATUS,
        lambda it: _has_no_rule(it) and _is_current(it),
        "kstatus has no rule for this kind, and takes for Current what has none of the conditions "
        "Ready, Reconciling and Stalled",
    ),
)
"""Asked when no cause of the kind explains it."""
