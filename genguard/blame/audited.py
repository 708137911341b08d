"""Read audit logs: who created, wrote, scaled and deleted one object, event by event.

Each answer is compared with the one before: what differs was written by the event's user. Below
level RequestResponse there are no answers: no field is known, only who wrote, scaled and deleted
the object. Annotations hold the patches of webhooks (genguard/audit/event.py).

State is kept for one object only, in each namespace that has one of this name.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from genguard.admission.review import Operation
from genguard.audit.event import Call, Event, ObjectReference, decode_object, read_calls
from genguard.blame.field_paths import FieldPath, choose, leaves, path_of_pointer, pointer_of, show
from genguard.blame.managed import Manager, UnreadableFieldsError, owners
from genguard.blame.report import (
    NOTES,
    Blame,
    BlamedField,
    FieldActor,
    ObjectAction,
    Writer,
    is_written,
    next_in_turn,
    notes_on,
    rfc3339,
)
from genguard.detection.finding import Confidence, FoundObject
from genguard.objects.fields import ABSENT, get
from genguard.shipped import shipped

_VERBS: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_REPLICAS: Final[FieldPath] = ("spec", "replicas")
_MOST_ACTIONS: Final = 20
_WHY_DELETED: Final = shipped("genguard.blame", "deleters.yaml", dict[str, str])


class NotInLogError(Exception):
    """The log has no write of such an object, or of several; the message says what to do."""


class AuditBlame:
    """Takes the events of a log in their order, and keeps what concerns one object."""

    def __init__(
        self, is_kind: Callable[[ObjectReference], bool], name: str, namespace: str
    ) -> None:
        """`namespace` "" is any, as long as one alone has such an object."""
        self._is_kind: Final = is_kind
        self._name: Final = name
        self._namespace: Final = namespace
        self._logs: Final[dict[str, ObjectLog]] = {}
        self._events = 0

    def take(self, event: Event) -> None:
        """Note one event."""
        if event.stage != "ResponseComplete":
            return
        self._events += 1
        where = event.object_ref
        if where is None or event.verb not in _VERBS or not self._is_kind(where):
            return
        # The path of a namespace's update names it as the namespace as well.
        is_namespace = (where.api_group, where.resource) == ("", "namespaces")
        namespace = "" if is_namespace else where.namespace
        if self._namespace not in ("", namespace) or not event.is_stored or event.is_dry_run:
            return
        name = where.name or str(get(decode_object(event.response_object), "metadata", "name"))
        if name == self._name or (event.verb == "deletecollection" and not where.name):
            if namespace not in self._logs:
                kind = where.api_group, where.api_version, where.resource
                self._logs[namespace] = ObjectLog(FoundObject(*kind, namespace, self._name, ""))
            self._logs[namespace].see(event, where)

    def find(self) -> "ObjectLog":
        """Return what is known of the object; raises NotInLogError."""
        found = [object_log for object_log in self._logs.values() if object_log.knows_anything]
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(sorted(log.where.namespace for log in found))
            raise NotInLogError(f"{self._name!r} is in the namespaces {names}: give -n")
        where = f" in namespace {self._namespace}" if self._namespace else ""
        raise NotInLogError(
            f"none of the {self._events} events is a write of {self._name!r}{where}"
        )


class ObjectLog:
    """What the events so far say of one object."""

    def __init__(self, where: FoundObject) -> None:
        self.where = where
        self.document: dict[str, Any] | None = None
        """The last that was seen; it may be older than the last write."""
        self._stored: dict[str, Any] | None = None
        """The object after the last event; None where that is not known."""
        self.unseen = 0
        """Writes of which the audit level shows no field."""
        self._fields: dict[FieldPath, BlamedField] = {}
        self._actions: Final[list[ObjectAction]] = []
        self._is_gone = False
        self._began_earlier = False

    @property
    def knows_anything(self) -> bool:
        """Whether an event was certainly about this object."""
        return bool(self._fields or self._actions or self.document)

    def see(self, event: Event, where: ObjectReference) -> None:
        """Take one successful write."""
        part = f" /{where.subresource}" if where.subresource else ""
        by = Writer(
            event.username, event.manager, f"{event.verb}{part}", rfc3339(event.time),
            exact=True, source="audit",
        )  # fmt: skip
        if where.uid:
            self.where = msgspec.structs.replace(self.where, uid=where.uid)
        answer = decode_object(event.response_object)
        is_object = isinstance(get(answer, "metadata"), dict) and answer.get("kind") != "Status"
        after = answer if is_object else None
        if event.verb == "deletecollection":
            self._see_deletion_of_many(get(answer, "items"), by)
        elif event.verb == "delete":
            self._see_deletion(after, by)
        elif where.subresource == "eviction":
            self._do("deleted", by, "evicted: the pod is deleted as far as its budget allows")
        elif where.subresource == "scale":
            self._see_scaling(after or decode_object(event.request_object), by)
        elif where.subresource == "binding":
            self._claim(("spec", "nodeName"), by)
        else:
            self._see_write(event, where, after, by)

    def report(self, field: str = "") -> Blame:
        """Return the report; raises NoSuchFieldError."""
        document = self.document or {}
        owned, there, rows = _owners(document), _written(document), []
        for path in choose(field, dict.fromkeys((*there, *self._fields))):
            known = self._fields.get(path) or BlamedField(show(path), "", None)
            writers = [known.writer, *map(Writer.of, owned.get(path, ()))]
            row = msgspec.structs.replace(
                known,
                pointer=pointer_of(path) if path in there else "",
                writer=next(filter(None, writers), None),
                also=() if known.writer else tuple(filter(None, writers[2:])),
            )
            rows.append(row)
        notes = (*self._notes(), *notes_on(rows))
        return Blame(self.where, not self._is_gone, tuple(rows), tuple(self._actions), notes)

    def _notes(self) -> Iterator[str]:
        if self.unseen:
            yield NOTES["no-fields-in-log"].format(self.unseen)
        if self._began_earlier:
            yield NOTES["log-begins-late"]

    def _do(self, what: str, by: Writer, text: str = "") -> None:
        last = self._actions[-1] if self._actions else None
        if what == "scaled" and last and (last.what, last.by.name) == (what, by.name):
            self._actions.pop()
        self._actions.append(ObjectAction(what, by, text))
        del self._actions[:-_MOST_ACTIONS]

    def _see_scaling(self, scale: Any, by: Writer) -> None:
        """Take a write of /scale: it sets spec.replicas of nearly every kind."""
        spec = get(scale, "spec")
        # omitempty: a Scale without replicas is one of 0 (pkg/apis/autoscaling/types.go).
        replicas = spec.get("replicas", 0) if isinstance(spec, dict) else None
        if replicas is not None and replicas == get(self._stored, *_REPLICAS):
            return
        self._claim(_REPLICAS, by)
        self._do("scaled", by)
        held = get(self.document, "spec")
        if replicas is not None and isinstance(held, dict):
            held["replicas"] = replicas

    def _see_deletion(self, after: dict[str, Any] | None, by: Writer) -> None:
        waits = after is not None and _waits(after)
        text = _WHY_DELETED.get(by.user, "")
        if waits:
            finalizers = get(after, "metadata", "finalizers")
            kept = ", ".join(map(str, finalizers if isinstance(finalizers, list) else ()))
            text = "; ".join(filter(None, (text, f"finalizers kept it: {kept}" if kept else "")))
            self._stored = self.document = after
        elif self._actions and self._actions[-1].what == "deletion asked for" and not text:
            text = "it ended after the deletion that was asked for"
        self._do("deletion asked for" if waits else "deleted", by, text)
        self._is_gone = not waits

    def _see_deletion_of_many(self, items: Any, by: Writer) -> None:
        if isinstance(items, list):
            if self.where.name in [get(item, "metadata", "name") for item in items]:
                self._see_deletion(None, by)
        elif self.knows_anything:
            text = "of the whole collection or by labels: perhaps of it"
            self._do("deletion of many", by, text)

    def _see_write(
        self, event: Event, where: ObjectReference, after: dict[str, Any] | None, by: Writer
    ) -> None:
        is_new = event.operation is Operation.CREATE and not where.subresource
        if is_new:
            self._stored, self.document, self._fields = {}, None, {}
            self._is_gone, self._began_earlier, self.unseen = False, False, 0
            self._do("created", by)
        if after is None:
            self.unseen += 1
            self._stored = None
            if not is_new:
                self._do("written", by, "at a level that shows no fields")
            return
        now, is_compared = _written(after), self._stored is not None
        if is_compared:
            old = _written(self._stored or {})
            paths = dict.fromkeys((*now, *old))
            changed = [path for path in paths if now.get(path, ABSENT) != old.get(path, ABSENT)]
        else:
            self._began_earlier |= not self._fields
            # An apply often changes nothing: managedFields say more of a field with an owner.
            sent = decode_object(event.request_object) if event.verb == "patch" else None
            named, owned = dict(leaves(sent)), _owners(after)
            changed = [path for path in now if path in named and path not in owned]
        calls = read_calls(event.annotations)
        # What a webhook takes from a request is neither in what was stored nor in what is now.
        asked = _written(decode_object(event.request_object)) if calls else {}
        gone = [path for path, value in asked.items() if value and path not in now]
        by_webhooks = _changers(calls, (*now, *self._fields, *changed, *gone), after)
        for path in dict.fromkeys((*changed, *(path for path in gone if path in by_webhooks))):
            self._claim(path, by, removed=path not in now)
            if is_compared and path not in by_webhooks:
                self._note(path, in_turn=next_in_turn(self._fields[path].in_turn, by))
        for path, changers in by_webhooks.items():
            self._note(path, changed_by=tuple(changers))
        if _REPLICAS in changed and not is_new:
            self._do("scaled", by)
        self._stored = self.document = after
        is_deleted = isinstance(get(after, "metadata", "deletionTimestamp"), str)
        if is_deleted and not _waits(after) and not self._is_gone:
            self._do("deleted", by, "removed the last finalizer")
            self._is_gone = True

    def _claim(self, path: FieldPath, by: Writer, *, removed: bool = False) -> None:
        self._note(path, writer=by, removed=removed, changed_by=())

    def _note(self, path: FieldPath, **known: Any) -> None:
        row = self._fields.get(path) or BlamedField(show(path), "", None)
        self._fields[path] = msgspec.structs.replace(row, **known)


def _changers(
    calls: Iterable[Call], paths: Iterable[FieldPath], after: Mapping[str, Any]
) -> Mapping[FieldPath, dict[FieldActor, None]]:
    """Return which webhooks changed which fields, also where the stored value stayed the same."""
    found: defaultdict[FieldPath, dict[FieldActor, None]] = defaultdict(dict)
    for call in calls:
        for operation in (call.operations or ()) if call.mutated else ():
            touched = path_of_pointer(operation.path, after)
            for path in paths if touched else ():
                if path[: len(touched or ())] == touched:
                    found[path][FieldActor("webhook", call.name, Confidence.CERTAIN)] = None
    return found


def _written(document: Mapping[str, Any]) -> dict[FieldPath, Any]:
    return {path: value for path, value in leaves(document) if is_written(path)}


def _owners(document: Mapping[str, Any]) -> dict[FieldPath, tuple[Manager, ...]]:
    try:
        return owners(document)
    except UnreadableFieldsError:
        return {}


def _waits(deleted: Mapping[str, Any]) -> bool:
    """Whether finalizers or the grace period of a pod keep a deleted object."""
    metadata = deleted["metadata"]
    return bool(metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds"))


def kind_in_log(kind: str, rows: Iterable[Any]) -> Callable[[ObjectReference], bool]:
    """Return a test for the objects of a kind that is named as for kubectl.

    `rows` are the built-in kinds. Of a custom resource a log has only the plural, so its singular
    is understood as far as English forms it regularly.
    """
    name, _, rest = kind.lower().partition(".")
    for row in rows:
        names = {row.resource, row.kind.lower(), *row.short_names}
        versioned = {f"{version}.{row.group}".rstrip(".") for version in row.versions}
        if name in names and rest.rstrip(".") in {"", row.group, *versioned}:
            group, resource = row.group, row.resource
            return lambda where: (where.api_group, where.resource) == (group, resource)
    plurals = {name, f"{name}s", f"{name}es", f"{name.removesuffix('y')}ies"}
    return lambda where: (
        where.resource in plurals
        and (not rest or rest in {where.api_group, f"{where.api_version}.{where.api_group}"})
    )
