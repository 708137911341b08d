"""Evaluates one object: whether it is ready, settled and healthy, and what blocks.

The order is the same for every kind. A field of the wrong type blocks. Then deletion decides. Then
status must belong to the current generation. Only then does the rule of the kind decide.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from genguard.objects.fields import ABSENT, get, items, text
from genguard.objects.metadata import parse_time
from genguard.objects.observed import generation_number
from genguard.objects.shown import listed
from genguard.status.aggregate import aggregate
from genguard.status.checked_object import COUNT, DEFAULT_DEADLINE, CheckedObject, WrongTypeError
from genguard.status.health_rules import RuleAnswers, evaluate_by_rule
from genguard.status.kind_rule import KindResult, KindRule
from genguard.status.kinds import find_rule
from genguard.status.kinds.generic import GENERIC
from genguard.status.pod_images import find_old_containers
from genguard.status.pod_replacement import note_terminating, say_grace
from genguard.status.ready_table import table_ready
from genguard.status.standard_fields import read_probes
from genguard.status.terminating_pods import MOST_NAMED, waits_for
from genguard.status.view import Blocks, Health, Past, Reason, StatusView, remark, type_word

FLAPPING_FLIPS: Final = 5
"""Changes of Ready within tracked_state.WINDOW_SECONDS from which an object counts as flapping. A
rollout makes two, so this is more than two rollouts."""
GRACE_SECONDS: Final = 10.0
"""Seconds that a controller gets to act on a new generation, for kinds whose controller never
writes observedGeneration: their old status does not say that it is old."""
_DECLARED: Final = ("Reconciling", "Stalled")


def evaluate(
    document: Mapping[str, Any],
    past: Past | None = None,
    children: Sequence[StatusView] = (),
    answers: RuleAnswers | None = None,
    *,
    at: float,
    with_table: bool = True,
    dependents: Sequence[StatusView] = (),
) -> StatusView:
    """Return the status of one decoded object of any kind; never raises, whatever the JSON.

    past        what is known from earlier writes; None: only the object itself counts.
    children    the views of the objects that it owns. The answer is aggregated over them, and
                their terminating pods count where status has no count.
    answers     what a rule in CEL says of the object; None where its kind has no such rule.
    dependents  the views of other objects that it depends on; they count as children do, but one
                that is being deleted is missing: nobody replaces it.
    at          now, in Unix seconds.
    with_table  whether to fill `table_ready` too; the Ready table never changes `ready`.
    """
    obj = CheckedObject.of(document, at)
    rule = find_rule(obj.group, obj.kind)
    if answers is not None and rule is GENERIC:
        rule = KindRule(partial(evaluate_by_rule, answers), needs_spec=False, decides_alone=True)
    gap = None if obj.deleting else _why_status_is_old(obj, rule, past)
    result = _apply_rule(obj, rule, gap, past)
    probes = read_probes(obj)
    reasons = [*result.reasons, *probes.reasons]
    if past is not None and past.images and gap is None and not (obj.deleting or result.finished):
        reasons += find_old_containers(past.images, document)
    have = obj.status.get("terminatingReplicas")
    terminating = have if type(have) is int and have >= 0 else None  # absent is not 0
    if children or terminating:
        terminating = _add_terminating(obj, rule, terminating, children, reasons)
    elif rule.waits_for_terminating and terminating is None and have is not None:
        path = "status.terminatingReplicas"
        reasons.append(Reason(path, type_word(have), COUNT, "", Blocks.SETTLED))
    ready = settled = True
    for reason in reasons:
        ready = ready and not reason.against_ready
        settled = settled and not reason.against_settled
    flaps = 0 if past is None else past.ready_flips
    if flaps >= FLAPPING_FLIPS:
        reasons.append(remark("Ready", have=flaps, note="changes within 10 minutes: flapping"))
    down = (
        rule.counts_replicas and result.progress == 0.0 and _is_overdue(obj, past, result.patience)
    )
    sound = flaps < FLAPPING_FLIPS and not probes.failing
    unknown = gap is not None and past is not None and past.observed_since is None
    view = StatusView(
        obj.group,
        obj.version,
        obj.kind,
        obj.namespace,
        obj.name,
        obj.uid,
        None if unknown else ready,
        settled,
        _health(result, down=down, good=ready and settled and sound),
        result.progress,
        obj.generation,
        obj.observed_generation,
        _reconciled_generation(obj, past, settled=settled),
        terminating,
        table_ready(obj) if with_table else None,
        tuple(reasons),
        obj.deleting,
        result.failed,
        result.finished,
        probes.traffic_ready,
        probes.application_qualified,
    )
    if not children and not dependents:
        return view
    kept = [msgspec.structs.replace(dependent, deleting=False) for dependent in dependents]
    tree = aggregate(view, [*children, *kept])
    if tree.settled is settled:
        return tree
    reconciled = _reconciled_generation(obj, past, settled=False)
    return msgspec.structs.replace(tree, reconciled_generation=reconciled)


def _why_status_is_old(obj: CheckedObject, rule: KindRule, past: Past | None) -> Reason | None:
    """Return why status does not belong to the current generation yet; None when it does."""
    gap = obj.why_unobserved(always_written=rule.always_observed)
    if gap is not None or past is None or past.observed_since is not None:
        return gap
    if (
        rule.status_unwritten
        or obj.generation is None
        or obj.at - past.intent_since >= GRACE_SECONDS
    ):
        return None
    if obj.observed_generation == obj.generation:
        return None
    note = "spec has just changed, and its controller has not acted yet"
    return Reason("metadata.generation", obj.generation, "a newer status", note)


def _apply_rule(
    obj: CheckedObject, rule: KindRule, gap: Reason | None, past: Past | None
) -> KindResult:
    """Return the result of the rule, or of what comes before it: see the module."""
    wrong = obj.wrong or (obj.wrong_spec if rule.needs_spec else None)
    if wrong is not None:
        return KindResult((wrong,))
    if obj.deleting:
        return _evaluate_deleting(obj)
    try:
        if gap is None:
            result = rule.evaluate(obj)
            return result if rule.decides_alone else _add_declared_conditions(obj, result)
        failures = _find_current_failures(obj, everywhere=rule is GENERIC)
    except WrongTypeError as error:
        return KindResult((error.reason,))
    overdue = past is not None and past.observed_since is None and _is_overdue(obj, past)
    return KindResult(
        (gap, *failures),
        failed=bool(failures),
        broken=overdue,
        progress=0.0 if rule.counts_replicas else None,
    )


def _is_overdue(obj: CheckedObject, past: Past | None, more: float = 0.0) -> bool:
    """Whether the current generation is older than DEFAULT_DEADLINE; False when not known.

    `more` seconds are added to the deadline.
    """
    return past is not None and obj.at - past.intent_since > DEFAULT_DEADLINE + more


def _evaluate_deleting(obj: CheckedObject) -> KindResult:
    """Return not ready; Red when deletionTimestamp passed more than DEFAULT_DEADLINE ago.

    A pod's deletionTimestamp already includes its grace period.
    """
    held = items(obj.metadata.get("finalizers"))
    names = [name for name in held if isinstance(name, str)]
    is_pod = obj.kind == "Pod" and not obj.group
    finished = is_pod and obj.status.get("phase") in ("Succeeded", "Failed")
    note = "it is being deleted"
    if is_pod and not finished:
        note = _what_holds_pod(obj, names)
    if (obj.group, obj.kind) == ("", "Namespace"):
        note = _what_holds_namespace(obj)
    reasons = [Reason("metadata.deletionTimestamp", "set", "absent", note)]
    if held:
        more = f", {len(held) - MOST_NAMED} more" if len(held) > MOST_NAMED else ""
        of_whom = f": {', '.join(names[:MOST_NAMED])}{more}" if names else ""
        note = f"it is deleted when they are removed{of_whom}"
        reasons.append(remark("metadata.finalizers", have=len(held), note=note))
    late = obj.overdue(obj.metadata.get("deletionTimestamp"))
    return KindResult(reasons, broken=late, finished=finished)


def _what_holds_namespace(obj: CheckedObject) -> str:
    """Say which conditions keep it (kubernetes pkg/controller/namespace/deletion)."""
    held = [condition.type for condition in obj.conditions().values() if condition.status == "True"]
    if not held:
        return "it is being deleted"
    return f"it waits for what its conditions say: {listed(held, MOST_NAMED)}"


def _what_holds_pod(obj: CheckedObject, finalizers: Sequence[str]) -> str:
    """Say what a terminating pod waits for. The text holds no time that changes as time passes."""
    due, node = obj.metadata.get("deletionTimestamp"), obj.spec.get("nodeName")
    time = parse_time(due) if isinstance(due, str) else None
    is_over = time is None or time.timestamp() <= obj.at
    holder = waits_for(text(node), finalizers, is_over=is_over)
    grace = obj.metadata.get("deletionGracePeriodSeconds")
    allowed = "" if is_over or type(grace) is not int else say_grace(grace)
    return f"it has {allowed}, and waits for {holder}" if allowed else f"it waits for {holder}"


def _add_terminating(
    obj: CheckedObject,
    rule: KindRule,
    reported: int | None,
    children: Sequence[StatusView],
    reasons: list[Reason],
) -> int | None:
    """Return the number of terminating pods; add the reason while a rule waits for them."""
    counted = _count_terminating_pods(children)
    terminating = max(reported or 0, counted or 0)
    if rule.waits_for_terminating and terminating:
        have = ABSENT if reported is None else reported
        notes = [] if terminating == reported else [f"{terminating} counted from pods"]
        notes += [*_find_pods_beyond(obj, rule, terminating), *note_terminating(obj)]
        note = "; ".join(notes)
        reasons.append(Reason("status.terminatingReplicas", have, "0", note, Blocks.SETTLED))
    return counted if reported is None else reported


def _find_pods_beyond(obj: CheckedObject, rule: KindRule, terminating: int) -> Iterator[str]:
    """Yield how many pods there are where they are more than spec allows."""
    most = None if rule.most_pods is None else rule.most_pods(obj)
    replicas = obj.status.get("replicas", 0)
    if most is None or type(replicas) is not int or replicas + terminating <= most:
        return
    pods = replicas + terminating
    yield f"{pods} pods in all, {pods - most} more than spec.replicas + maxSurge"


def _health(result: KindResult, *, down: bool, good: bool) -> Health:
    if result.failed or result.broken or down:
        return Health.RED
    return Health.GREEN if good and not result.degraded else Health.YELLOW


def _reconciled_generation(obj: CheckedObject, past: Past | None, *, settled: bool) -> int | None:
    if settled and obj.generation is not None:
        return obj.generation
    if past is not None:
        return past.reconciled_generation
    written = obj.reconciled_generation
    return None if written is None else written[1]


def _add_declared_conditions(obj: CheckedObject, result: KindResult) -> KindResult:
    """Add the conditions Reconciling and Stalled, which any kind may carry, to a result.

    Reconciling: not settled. Stalled: not ready and failed; the controller plans nothing more, so
    the other reasons do not keep the object from being settled.
    Source: sigs.k8s.io/cli-utils pkg/kstatus/README.md.
    """
    listed_conditions = items(obj.status.get("conditions"))
    true = (
        get(condition, "type")
        for condition in listed_conditions
        if get(condition, "status") == "True"
    )
    if not any(name in _DECLARED for name in true):
        return result  # a rule that reads no conditions does not mind if they are malformed
    conditions = obj.conditions()
    reasons = list(result.reasons)
    failed = result.failed
    stalled, reconciling = conditions.true("Stalled"), conditions.true("Reconciling")
    if stalled is not None and not stalled.stale(obj.generation):
        reasons = [
            reason._replace(blocks=Blocks.READY) if reason.blocks is Blocks.BOTH else reason
            for reason in reasons
        ]
        reasons.append(stalled.blocking("False", Blocks.READY))
        failed = True
    if reconciling is not None:
        reasons.append(reconciling.blocking("False", Blocks.SETTLED))
    return result._replace(reasons=reasons, failed=failed)


def _find_current_failures(obj: CheckedObject, *, everywhere: bool) -> list[Reason]:
    """Return Stalled and Failed whose own observedGeneration is the current generation.

    everywhere  look in all standard sections, not only in status

    They count even while status.observedGeneration is behind: Flux raises it only on success.
    """
    conditions = obj.conditions(everywhere=everywhere)
    return [
        found.blocking("False", Blocks.READY)
        for found in map(conditions.true, ("Stalled", "Failed"))
        if found is not None and generation_number(found.observed) == obj.generation
    ]


def _count_terminating_pods(children: Sequence[StatusView]) -> int | None:
    """Count children that are terminating pods, and the terminating pods of child ReplicaSets.

    A pod counts with a deletionTimestamp and a phase other than Failed and Succeeded. None when no
    child is a pod or has a count. Source: KEP-3973, Design Details, API.
    """
    counts = [
        int(child.deleting and not child.finished)
        for child in children
        if child.kind == "Pod" and not child.group
    ]
    counts += [
        child.terminating_replicas
        for child in children
        if child.kind == "ReplicaSet" and child.terminating_replicas is not None
    ]
    return sum(counts) if counts else None
