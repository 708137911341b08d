"""What a cluster is made of, and kinds whose status no controller writes.

Reads    a Node's conditions and spec.unschedulable; a Namespace's phase; Available of APIServices;
         Established and NamesAccepted of definitions.
"""

from typing import Final

from genguard.generation.table import load_rows
from genguard.objects.fields import ABSENT
from genguard.status.checked_object import CheckedObject
from genguard.status.kind_rule import NOTHING_BLOCKS, KindResult, KindRule, KindRules
from genguard.status.view import Blocks, Reason, remark, short_word

_PRESSURES: Final = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")


def evaluate_node(obj: CheckedObject) -> KindResult:
    """Red unless Ready; Yellow when cordoned or under pressure, because it accepts fewer pods."""
    conditions = obj.conditions()
    blocked = conditions.why_not_true("Ready", obj.generation)
    if blocked is not None:
        return KindResult((blocked,), broken=True)
    remarks = [
        remark(found.path, have="True", note=found.note)
        for found in map(conditions.true, _PRESSURES)
        if found is not None
    ]
    if obj.flag("unschedulable"):
        remarks.append(remark("spec.unschedulable", have=True, note="cordoned"))
    return KindResult(remarks, degraded=bool(remarks))


def evaluate_namespace(obj: CheckedObject) -> KindResult:
    """Require phase Active, which the API server itself sets on creation."""
    phase = obj.word("status", "phase")
    if phase == "Active":
        return NOTHING_BLOCKS
    return KindResult((Reason("status.phase", short_word(phase) if phase else ABSENT, "Active"),))


def evaluate_api_service(obj: CheckedObject) -> KindResult:
    """Require Available; Red when it has been missing for longer than a server takes to start."""
    conditions = obj.conditions()
    blocked = conditions.why_not_true("Available", obj.generation)
    if blocked is None:
        return NOTHING_BLOCKS
    found = conditions.get("Available")
    late = found is not None and obj.overdue(found.since)
    return KindResult((blocked,), broken=late)


def evaluate_definition(obj: CheckedObject) -> KindResult:
    """Require Established; a name conflict with another definition is final until somebody acts."""
    conditions = obj.conditions()
    accepted = conditions.get("NamesAccepted")
    if accepted is not None and accepted.status == "False":
        return KindResult((accepted.blocking("True", Blocks.READY),), failed=True)
    blocked = conditions.why_not_true("Established", obj.generation)
    return NOTHING_BLOCKS if blocked is None else KindResult((blocked,))


def evaluate_silent(obj: CheckedObject) -> KindResult:  # noqa: ARG001 - the interface of a rule
    """Accept every object: there is no status to read."""
    return NOTHING_BLOCKS


SILENT_KINDS: Final = {
    *((row.group, row.kind) for row in load_rows() if row.persisted),
    ("storage.k8s.io", "CSINode"),
} - {(row.group, row.kind) for row in load_rows() if "status" in row.subresources}
"""Group and kind of what has no status, or one that no controller writes."""
_SILENT: Final = KindRule(evaluate_silent, status_unwritten=True, needs_spec=False)
RULES: Final[KindRules] = {
    ("", "Node"): KindRule(evaluate_node),
    ("", "Namespace"): KindRule(evaluate_namespace),
    ("apiregistration.k8s.io", "APIService"): KindRule(evaluate_api_service),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): KindRule(evaluate_definition),
    **dict.fromkeys(sorted(SILENT_KINDS), _SILENT),
}
