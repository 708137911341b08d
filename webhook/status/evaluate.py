"""One object's status in one answer: ready, settled, health, and what blocks.

The order of judging is the same for every kind: a field of the wrong type blocks; deletion decides;
then status has to speak of the generation of now; only then is the kind asked.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from webhook.objects.fields import ABSENT
from webhook.status.aggregate import aggregate
from webhook.status.declared import current_failures, with_declared
from webhook.status.judgement import Judgement, Kind
from webhook.status.kinds.table import GENERIC, kind_of
from webhook.status.observed import highest_observed, observed_gap
from webhook.status.ready_table import amendment, table_ready
from webhook.status.reason import Blocks, Reason, remark
from webhook.status.subject import DEADLINE, Subject, UnreadableError, read_subject
from webhook.status.terminating import (
    counted_terminating,
    reported_terminating,
    unreadable_terminating,
)
from webhook.status.view import Health, Past, StatusView

FLAPPING: Final = 5
"""Turns of Ready within the window of Past: a rollout makes two, so this is more than two."""
JUST: Final = 10.0
"""Seconds after a change of intent in which a kind that never writes an observedGeneration is given
the time to act: its status of before proves nothing, and says nothing of when it was written."""


def evaluate(
    document: Mapping[str, Any],
    past: Past | None = None,
    children: Sequence[StatusView] = (),
    *,
    at: float,
    with_table: bool = True,
) -> StatusView:
    """Judge one decoded object of any kind; never raises, whatever the JSON.

    past        what earlier writes told; without it only the object speaks.
    children    the views of the objects it owns: their pods count where status counts none, and
                the answer is aggregated over them.
    at          now, in Unix seconds.
    with_table  whether to ask the Ready table, which decides nothing, too.
    """
    subject = read_subject(document, at)
    kind = kind_of(subject.group, subject.kind)
    gap = None if subject.deleting else _gap(subject, kind, past)
    judgement = _judge(subject, kind, gap, past)
    reasons = list(judgement.reasons)
    terminating = reported_terminating(subject)
    if children or terminating:
        terminating = _terminating(kind, terminating, children, reasons)
    elif kind.drains and terminating is None:
        reasons += unreadable_terminating(subject)
    ready = settled = True
    for reason in reasons:
        ready = ready and not reason.against_ready
        settled = settled and not reason.against_settled
    flaps = 0 if past is None else past.ready_flips
    if flaps >= FLAPPING:
        reasons.append(remark("Ready", have=flaps, note="turns of late: flapping"))
    table = table_ready(subject) if with_table else None
    if table is not None and table is not ready:
        reasons.append(_difference(subject, table=table))
    down = kind.counts and judgement.progress == 0.0 and _long_ago(subject, past)
    unknown = gap is not None and past is not None and past.observed_since is None
    view = StatusView(
        subject.group,
        subject.version,
        subject.kind,
        subject.namespace,
        subject.name,
        subject.uid,
        None if unknown else ready,
        settled,
        _health(judgement, down=down, good=ready and settled and flaps < FLAPPING),
        judgement.progress,
        subject.generation,
        highest_observed(subject),
        _reconciled(subject, past, settled=settled),
        terminating,
        table,
        tuple(reasons),
        subject.deleting,
        judgement.failed,
        judgement.finished,
    )
    if not children:
        return view
    whole = aggregate(view, children)
    if whole.settled is settled:
        return whole
    reconciled = _reconciled(subject, past, settled=False)
    return msgspec.structs.replace(whole, reconciled_generation=reconciled)


def _gap(subject: Subject, kind: Kind, past: Past | None) -> Reason | None:
    """Why status does not speak of this generation yet."""
    gap = observed_gap(subject, always_written=kind.observes)
    if gap is not None or past is None or past.observed_since is not None:
        return gap
    if kind.silent or subject.generation is None or subject.at - past.intent_since >= JUST:
        return None
    if highest_observed(subject) == subject.generation:
        return None
    note = "it has just changed, and nobody has acted on it yet"
    return Reason("metadata.generation", subject.generation, "a status written since", note)


def _judge(subject: Subject, kind: Kind, gap: Reason | None, past: Past | None) -> Judgement:
    wrong = subject.wrong or (subject.wrong_spec if kind.by_spec else None)
    if wrong is not None:
        return Judgement((wrong,))
    if subject.deleting:
        return _deletion(subject)
    try:
        if gap is None:
            judgement = kind.judge(subject)
            return judgement if kind is GENERIC else with_declared(subject, judgement)
        failures = current_failures(subject)
    except UnreadableError as error:
        return Judgement((error.reason,))
    overdue = past is not None and past.observed_since is None and _long_ago(subject, past)
    return Judgement(
        (gap, *failures),
        failed=bool(failures),
        broken=overdue,
        progress=0.0 if kind.counts else None,
    )


def _long_ago(subject: Subject, past: Past | None) -> bool:
    """Whether the intent of now is older than any deadline; False where nobody knows."""
    return past is not None and subject.at - past.intent_since > DEADLINE


def _deletion(subject: Subject) -> Judgement:
    """Never ready; Red when it is long past its time, which for pods includes the grace period."""
    finalizers = subject.metadata.get("finalizers")
    held = len(finalizers) if isinstance(finalizers, list) else 0
    reasons = [Reason("metadata.deletionTimestamp", "set", "absent", "it is being deleted")]
    if held:
        reasons.append(
            remark("metadata.finalizers", have=held, note="it goes when they are removed")
        )
    late = subject.overdue(subject.metadata.get("deletionTimestamp"))
    phase = subject.status.get("phase")
    finished = subject.kind == "Pod" and phase in ("Succeeded", "Failed")
    return Judgement(reasons, broken=late, finished=finished)


def _terminating(
    kind: Kind, reported: int | None, children: Sequence[StatusView], reasons: list[Reason]
) -> int | None:
    """The number to tell; while any pod lingers, a kind that drains is not settled."""
    counted = counted_terminating(children)
    lingering = max(reported or 0, counted or 0)
    if kind.drains and lingering:
        have = ABSENT if reported is None else reported
        note = "" if lingering == reported else f"{lingering} counted from pods"
        reasons.append(Reason("status.terminatingReplicas", have, "0", note, Blocks.SETTLED))
    return counted if reported is None else reported


def _difference(subject: Subject, *, table: bool) -> Reason:
    if table:
        return remark("tableReady", have=True, note="the Ready table does not ask for what blocks")
    note = amendment(subject) or "the Ready table asks for more"
    return remark("tableReady", have=False, note=note)


def _health(judgement: Judgement, *, down: bool, good: bool) -> Health:
    if judgement.failed or judgement.broken or down:
        return Health.RED
    return Health.GREEN if good and not judgement.degraded else Health.YELLOW


def _reconciled(subject: Subject, past: Past | None, *, settled: bool) -> int | None:
    if settled and subject.generation is not None:
        return subject.generation
    if past is not None:
        return past.reconciled_generation
    written = subject.status.get("reconciledGeneration")
    return written if type(written) is int else None
