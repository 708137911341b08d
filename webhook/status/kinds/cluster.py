"""What carries the rest of a cluster: Nodes, Namespaces, APIServices, CustomResourceDefinitions.

Reads    a Node's conditions and spec.unschedulable; a Namespace's phase; Available of APIServices;
         Established and NamesAccepted of definitions.
Source   core/v1 types.go:NodeConditionType; kube-aggregator pkg/apis/apiregistration/v1/types.go;
         apiextensions pkg/apis/apiextensions/v1/types.go.
"""

from typing import Final

from webhook.objects.fields import ABSENT
from webhook.status.conditions import FALSE, TRUE, must_be_true, read_conditions
from webhook.status.judgement import GOOD, Judgement
from webhook.status.reason import Blocks, Reason, remark, short_word
from webhook.status.subject import Subject

_PRESSURES: Final = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")


def judge_node(subject: Subject) -> Judgement:
    """Red unless Ready; Yellow when cordoned or under pressure, for it carries less.

    Ready    condition Ready is True
    Settled  the same
    """
    conditions = read_conditions(subject)
    blocked = must_be_true(conditions, "Ready", subject.generation)
    if blocked is not None:
        return Judgement((blocked,), broken=True)
    remarks = [
        remark(found.path, have=TRUE, note=short_word(found.reason) if found.reason else "")
        for found in map(conditions.true, _PRESSURES)
        if found is not None
    ]
    if subject.flag("unschedulable"):
        remarks.append(remark("spec.unschedulable", have=True, note="cordoned"))
    return Judgement(remarks, degraded=bool(remarks))


def judge_namespace(subject: Subject) -> Judgement:
    """Active; the API server itself sets the phase on creation.

    Ready    status.phase is Active
    Settled  the same
    """
    phase = subject.word("status", "phase")
    if phase == "Active":
        return GOOD
    return Judgement((Reason("status.phase", short_word(phase) if phase else ABSENT, "Active"),))


def judge_api_service(subject: Subject) -> Judgement:
    """Red when its server has been out of reach for longer than a start takes.

    Ready    condition Available is True
    Settled  the same
    """
    conditions = read_conditions(subject)
    blocked = must_be_true(conditions, "Available", subject.generation)
    if blocked is None:
        return GOOD
    found = conditions.get("Available")
    late = found is not None and subject.overdue(found.since)
    return Judgement((blocked,), broken=late)


def judge_definition(subject: Subject) -> Judgement:
    """Established; names that another definition has taken stay so until somebody acts.

    Ready    condition Established is True, and NamesAccepted is not False
    Settled  the same, or NamesAccepted is False
    """
    conditions = read_conditions(subject)
    accepted = conditions.get("NamesAccepted")
    if accepted is not None and accepted.status == FALSE:
        return Judgement((accepted.blocking(TRUE, Blocks.READY),), failed=True)
    blocked = must_be_true(conditions, "Established", subject.generation)
    return GOOD if blocked is None else Judgement((blocked,))
