"""Say in status that an intent is new: Ready unknown and Settled false, in the write of the intent.

Reads   every top-level field but metadata and status, and status.conditions, of object, oldObject
Acts on UPDATE of the custom resources the user named, of versions without a status subresource,
        that changes spec, of an object that has a status and whose conditions Ready and Settled
        the write leaves as they were
Result  conditions Ready=Unknown and Settled=False with the time of the write; one that is so
        already is left alone, and so are all others. The controller's next report turns them back
Relies  on status being the requester's to write there (customresource/strategy.go); a write that
        touches one of the two itself is taken for its controller's own word, also in round 1
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, ClassVar, Final

import msgspec

from genguard.admission.review import Operation, ReviewedObject
from genguard.generation.custom import CustomResource, CustomResources, StatusSubresource
from genguard.generation.flipped_conditions import FLIPPED, MESSAGE, REASON
from genguard.generation.table import GenerationTable
from genguard.objects.fields import ABSENT
from genguard.patch.operations import Edit
from genguard.rules.rule import RuleInput, intent_changed

_Conditions = list[dict[str, Any]]


class NotFlippableError(ValueError):
    """A resource whose status cannot be flipped in the same write; the message says why."""


class FlipStatus:
    """See the module."""

    name: ClassVar[str] = "flip-status"

    def __init__(
        self, table: GenerationTable, custom: CustomResources, resources: Iterable[str]
    ) -> None:
        """`resources` by plural or kind: `widgets.example.org`, `Widget.example.org`.

        `refused` are those without a version that can be flipped, and why; `unknown` are those
        without a definition.
        """
        flipped: set[tuple[str, str, str]] = set()
        refused: dict[str, str] = {}
        unknown: set[str] = set()
        built_in = tuple(table.strategies())
        for written in (each.strip() for each in resources):
            name, _, group = written.partition(".")
            versions = custom.versions(group, name)
            good = [version for version in versions if not _why_not(version)]
            if good:
                flipped |= {(version.group, version.version, version.resource) for version in good}
            elif versions:
                refused[written] = _why_not(versions[0])
            elif any(row.group == group and name in (row.resource, row.kind) for row in built_in):
                refused[written] = "a built-in kind, whose status is written apart from its spec"
            else:
                unknown.add(written)
        self._flipped: Final = frozenset(flipped)
        self.refused: Final[Mapping[str, str]] = MappingProxyType(refused)
        self.unknown: Final = frozenset(unknown)

    def evaluate(self, review: RuleInput) -> tuple[Edit, ...]:
        """At most one edit, of the whole list: items cannot be put into one."""
        request = review.request
        resource = request.wire.resource
        new, old = request.object, request.old_object
        if (
            (resource.group, resource.version, resource.resource) not in self._flipped
            or request.operation is not Operation.UPDATE
            or request.subresource
            or new is None
            or old is None
            or not intent_changed(new, old)
        ):
            return ()
        conditions = _conditions(new)
        if conditions is None or _flippable(conditions) != _flippable(_conditions(old) or []):
            return ()
        time = datetime.fromtimestamp(int(review.at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        wanted = [_flip(condition, time) for condition in conditions]
        present = [condition.get("type") for condition in conditions]
        wanted += [_flip({"type": each}, time) for each in FLIPPED if each not in present]
        return () if wanted == conditions else (Edit(("status", "conditions"), wanted),)


def _why_not(resource: CustomResource) -> str:
    if resource.status is not StatusSubresource.ABSENT:
        return "it has a status subresource: the API server drops a status sent along with spec"
    return resource.condition_fault


def _conditions(reviewed: ReviewedObject) -> _Conditions | None:
    """None where there is no status to speak of, or no list of objects where conditions are."""
    status = ABSENT if reviewed.status is None else msgspec.json.decode(reviewed.status)
    conditions = status.get("conditions") if isinstance(status, dict) else ABSENT
    if conditions is None:
        return []
    if not isinstance(conditions, list) or not all(
        isinstance(condition, dict) for condition in conditions
    ):
        return None
    return conditions


def _flippable(conditions: _Conditions) -> _Conditions:
    return [condition for condition in conditions if _status_of(condition) is not None]


def _flip(condition: dict[str, Any], time: str) -> dict[str, Any]:
    status = _status_of(condition)
    if status is None or condition.get("status") == status:
        return condition
    flipped = {"status": status, "reason": REASON, "message": MESSAGE, "lastTransitionTime": time}
    return {**condition, **flipped}


def _status_of(condition: dict[str, Any]) -> str | None:
    """What a condition's status is flipped to; None where it is another condition."""
    type_ = condition.get("type")
    return FLIPPED.get(type_) if isinstance(type_, str) else None
