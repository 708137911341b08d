"""The conditions Ready and Settled that `genguard publish-status` writes into custom resources.

Reads    the view, metadata.managedFields, and the schema in the CustomResourceDefinition.
Result   the body of a server-side apply on the subresource status, or nothing to do.
Relies   on field ownership: a condition is ours while we alone own its `status`. A condition that
         anybody else owns is never written, so two writers cannot fight.
Source   Improve .status, "Standardizing Conditions"; apimachinery
         pkg/apis/meta/v1/types.go:Condition and ManagedFieldsEntry.
"""

from collections.abc import Container, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from genguard.objects.fields import get, items, mapping
from genguard.status.view import Reason, StatusView

MANAGER: Final = "genguard-publish-status"
"""The field manager of what is published."""
LABEL: Final = "genguard.io/publish-status"
"""An object opts in by this label with the value "true"."""
READY: Final = "Ready"
SETTLED: Final = "Settled"
TYPES: Final = (READY, SETTLED)
_REQUIRED: Final = ("type", "status")
_LEAVES: Final = ("lastTransitionTime", "message", "observedGeneration", "reason")
EVERY: Final = frozenset({*_REQUIRED, *_LEAVES})
_ITEM: Final = "k:"
_FIELD: Final = "f:"

Document = Mapping[str, Any]


class NotPublishableError(Exception):
    """The conditions of a kind cannot be applied; the message says why and what to change."""


class Owners(NamedTuple):
    """Who owns the fields of one condition, as managedFields says."""

    mine: frozenset[str]
    """The leaves that this verb owns: `status`, `reason`, ..."""
    others: tuple[str, ...]
    """Other managers that own the leaf `status`."""

    @property
    def is_mine(self) -> bool:
        """Whether this verb, and nobody else, owns the condition."""
        return "status" in self.mine and not self.others


_NOBODY: Final = Owners(frozenset(), ())


def read_owners(document: Document) -> dict[str, Owners]:
    """Return who owns each condition of status, by type. A malformed entry owns nothing."""
    found: dict[str, Owners] = {}
    for entry in items(get(document, "metadata", "managedFields")):
        manager = get(entry, "manager")
        for name, leaves in _owned_conditions(entry):
            mine, others = found.get(name, _NOBODY)
            if manager == MANAGER and get(entry, "operation") == "Apply":
                mine = mine.union(leaves)
            elif "status" in leaves:
                others = tuple(dict.fromkeys((*others, str(manager))))
            found[name] = Owners(mine, others)
    return found


def _owned_conditions(entry: Any) -> Iterator[tuple[str, list[str]]]:
    """Yield type and leaves of each condition that one entry of managedFields owns."""
    for key, fields in mapping(get(entry, "fieldsV1", "f:status", "f:conditions")).items():
        if not key.startswith(_ITEM) or not isinstance(fields, dict):
            continue
        try:
            name = get(msgspec.json.decode(key.removeprefix(_ITEM)), "type")
        except (msgspec.DecodeError, RecursionError):
            continue
        if isinstance(name, str):
            yield name, [field.removeprefix(_FIELD) for field in fields if field.startswith(_FIELD)]


def without_published(document: Document) -> Document:
    """Return an object without the conditions that this verb wrote.

    They must not count when the object is evaluated: a Ready=False would keep itself for ever, and
    our write would look as if the controller had acted. Without any it is the same object.
    """
    mine = {name for name, owners in read_owners(document).items() if owners.is_mine}
    conditions = get(document, "status", "conditions")
    if not mine or not isinstance(conditions, list):
        return document
    left = [condition for condition in conditions if get(condition, "type") not in mine]
    status = {key: value for key, value in document["status"].items() if key != "conditions"}
    if left:
        status["conditions"] = left
    if status:
        return {**document, "status": status}
    return {key: value for key, value in document.items() if key != "status"}


def read_schema(definition: Document, version: str) -> frozenset[str]:
    """Return which fields a CustomResourceDefinition lets conditions have.

    One that is not declared would be refused. Raises NotPublishableError.

    Only a list map with the key `type` has an owner for each condition. Any other list is owned as
    a whole: to apply two conditions would drop all others.
    """
    name = get(definition, "metadata", "name")
    versions = items(get(definition, "spec", "versions"))
    found = next((entry for entry in versions if get(entry, "name") == version), None)
    if not isinstance(get(found, "subresources", "status"), dict):
        raise NotPublishableError(
            f"{name}: version {version} has no status subresource: add subresources.status to the "
            "CustomResourceDefinition"
        )
    schema = get(found, "schema", "openAPIV3Schema")
    listed = get(schema, "properties", "status", "properties", "conditions")
    keys = get(listed, "x-kubernetes-list-map-keys")
    if get(listed, "x-kubernetes-list-type") != "map" or keys != ["type"]:
        raise NotPublishableError(
            f"{name}: status.conditions of version {version} is no list map with the key type: add "
            "x-kubernetes-list-type: map and x-kubernetes-list-map-keys: [type], or to write two "
            "conditions would drop all others"
        )
    fields = frozenset(mapping(get(listed, "items", "properties")))
    if get(listed, "items", "x-kubernetes-preserve-unknown-fields") is True:
        return EVERY
    if not fields.issuperset(_REQUIRED):
        raise NotPublishableError(f"{name}: a condition of version {version} has no type or status")
    return fields


class PublishedCondition(NamedTuple):
    """One condition that is to be published."""

    type: str
    status: str
    reason: str
    message: str
    generation: int | None

    def is_published(self, item: Document, declared: Container[str]) -> bool:
        """Whether a stored condition says the same: its message may differ, to save writes."""
        wanted = {"status": self.status, "reason": self.reason}
        if self.generation is not None:
            wanted["observedGeneration"] = str(self.generation)
        return all(str(item.get(key)) == value for key, value in wanted.items() if key in declared)

    def to_item(self, item: Document | None, declared: Container[str], now: str) -> dict[str, Any]:
        """Return the condition, with the time of the stored one if its status stays the same."""
        is_same = item is not None and item.get("status") == self.status
        since = item.get("lastTransitionTime") if is_same and item is not None else None
        fields = {
            "type": self.type,
            "status": self.status,
            "reason": self.reason,
            "message": self.message,
            "lastTransitionTime": since if isinstance(since, str) else now,
            "observedGeneration": self.generation,
        }
        return {key: fields[key] for key in fields if fields[key] is not None and key in declared}


def conditions_of(view: StatusView) -> dict[str, PublishedCondition]:
    """Return both conditions for a view. A message has a path of fields, and no value of one."""
    going = "Deleting" if view.deleting else "Failed" if view.failed else "NotReady"
    why = {True: "Ready", False: going, None: "NotObserved"}[view.ready]
    ready = {True: "True", False: "False", None: "Unknown"}[view.ready]
    settled = "Settled" if view.settled else "Deleting" if view.deleting else "InProgress"
    message = _message(reason for reason in view.reasons if reason.against_ready)
    unsettled = _message(reason for reason in view.reasons if reason.against_settled)
    return {
        READY: PublishedCondition(READY, ready, why, message, view.generation),
        SETTLED: PublishedCondition(
            SETTLED, str(view.settled), settled, unsettled, view.generation
        ),
    }


def _message(reasons: Iterator[Reason]) -> str:
    first = next(reasons, None)
    return f"When this was written, {first.path} blocked." if first else "Nothing blocks."


class StoredConditions(NamedTuple):
    """The published conditions as they are stored, and who owns them."""

    items: Mapping[str, Document]
    owners: Mapping[str, Owners]

    def who_else(self, name: str) -> str | None:
        """Return who writes a condition beside or instead of this verb; None: nobody."""
        if name not in self.items:
            return None
        owners = self.owners.get(name, _NOBODY)
        if owners.is_mine:
            return None
        return ", ".join(owners.others) or "somebody without a field manager"


def read_stored(document: Document) -> StoredConditions:
    """Return the conditions Ready and Settled of an object as it is stored."""
    found: dict[str, Document] = {}
    for condition in items(get(document, "status", "conditions")):
        name = get(condition, "type")
        if isinstance(condition, dict) and isinstance(name, str) and name in TYPES:
            found.setdefault(name, condition)
    return StoredConditions(found, read_owners(document))


def items_to_apply(
    stored: StoredConditions,
    wanted: Mapping[str, PublishedCondition],
    declared: Container[str],
    now: str,
) -> list[dict[str, Any]] | None:
    """Return the conditions to apply; None when they are stored already.

    wanted  only the types that may be written; the others stay as they are
    now     RFC 3339
    What an apply leaves out is removed where nobody else owns it. So the fields
    that are still ours are sent as they are, of a condition that another writer has changed.
    """
    changed = [
        condition
        for name, condition in wanted.items()
        if name not in stored.items or not condition.is_published(stored.items[name], declared)
    ]
    if not changed:
        return None
    kept = [
        condition.to_item(stored.items.get(name), declared, now)
        if condition in changed
        else _owned_part(stored, name)
        for name, condition in wanted.items()
    ]
    return [*kept, *_left_to_others(stored, wanted)]


def items_to_release(stored: StoredConditions) -> list[dict[str, Any]] | None:
    """Return what to apply so that our conditions are removed; None when none of them is there."""
    mine = {name for name in stored.items if stored.owners.get(name, _NOBODY).is_mine}
    return _left_to_others(stored, mine) if mine else None


def _left_to_others(stored: StoredConditions, but: Container[str]) -> list[dict[str, Any]]:
    return [
        _owned_part(stored, name)
        for name in stored.items
        if name not in but and stored.owners.get(name, _NOBODY).mine & {"status", *_LEAVES}
    ]


def _owned_part(stored: StoredConditions, name: str) -> dict[str, Any]:
    """Return the fields of a stored condition that are ours, unchanged, and its type."""
    item, mine = stored.items[name], stored.owners.get(name, _NOBODY).mine
    kept = [key for key in ("status", *_LEAVES) if key in mine and key in item]
    return {"type": name, **{key: item[key] for key in kept}}
