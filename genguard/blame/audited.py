"""Read audit logs: who created, wrote, scaled and deleted one object, event by event.

At level RequestResponse each answer is compared with the one before: what differs was written by
the event's user. At Request there are no answers: a JSON Patch is applied to the object as far as
it is known, other patches are what they ask for. At Metadata no field is known, but who wrote,
scaled and deleted it is. Annotations hold the patches of webhooks (genguard/audit/event.py).

State is kept for one object only, in each namespace that has one of this name. Bounded.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from difflib import get_close_matches
from typing import Any, Final

import msgspec

from genguard.audit.event import (
    Call,
    Event,
    ObjectReference,
    decode_object,
    read_calls,
)
from genguard.audit.stages import UnknownStagesError, apply_patch
from genguard.blame.managed import Manager, UnreadableFieldsError, owners
from genguard.blame.places import Item, Place, choose, place_of_pointer, pointer_of, show
from genguard.blame.report import (
    Blame,
    BlamedField,
    BlamedObject,
    Changer,
    Deed,
    Writer,
    covers,
    is_written,
    next_in_turn,
    rfc3339,
    written_leaves,
)
from genguard.detection.finding import Confidence
from genguard.objects.fields import from_pointer, get
from genguard.objects.metadata import parse_time

_COMPLETE: Final = "ResponseComplete"
_CREATED: Final = 201
_WRITES: Final = frozenset({"create", "update", "patch"})
_DELETES: Final = frozenset({"delete", "deletecollection"})
_REPLICAS: Final[Place] = ("spec", "replicas")
_SAME: Final = 1.5
"""Seconds: managedFields have whole seconds."""
_MOST_DEEDS: Final = 20
_MOST_NAMESPACES: Final = 1_000
_MOST_NAMES: Final = 10_000
_OFFERED: Final = 3
_KNOWN_USERS: Final = {
    "system:serviceaccount:kube-system:generic-garbage-collector": (
        "the garbage collector: its owner is gone, or is deleted in the foreground"
    ),
    "system:serviceaccount:kube-system:namespace-controller": "its namespace is deleted",
    "system:serviceaccount:kube-system:ttl-after-finished-controller": (
        "it had finished, and its ttlSecondsAfterFinished were over"
    ),
    "system:serviceaccount:kube-system:pod-garbage-collector": (
        "the pod garbage collector: its node is gone, or there are too many finished pods"
    ),
}


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
        self._stories: Final[dict[str, _Story]] = {}
        self._names: Final[dict[str, None]] = {}
        self.events = 0

    def take(self, event: Event) -> None:
        """Note one event."""
        if event.stage == _COMPLETE:
            self.events += 1
            self._see(event)

    def find(self) -> "_Story":
        """Return what is known of the object; raises NotInLogError."""
        found = [one for one in self._stories.values() if one.knows_anything]
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(sorted(one.where.namespace for one in found))
            raise NotInLogError(f"{self._name!r} is in the namespaces {names}: give -n")
        near = get_close_matches(self._name, list(self._names), n=_OFFERED)
        meant = f"; did you mean {', '.join(near)}?" if near else ""
        where = f" in namespace {self._namespace}" if self._namespace else ""
        raise NotInLogError(
            f"none of the {self.events} events is a write of {self._name!r}{where}{meant}"
        )

    def _see(self, event: Event) -> None:
        where = event.object_ref
        if where is None or event.verb not in _WRITES | _DELETES or not self._is_kind(where):
            return
        # The path of a namespace's update names it as the namespace as well.
        is_namespace = (where.api_group, where.resource) == ("", "namespaces")
        namespace = "" if is_namespace else where.namespace
        if self._namespace and namespace != self._namespace:
            return
        if not event.is_stored or event.is_dry_run:
            return
        name = where.name or _name_in(event)
        if name and name != self._name:
            if len(self._names) < _MOST_NAMES:
                self._names[name] = None
            return
        if not name and event.verb != "deletecollection":
            return
        story = self._stories.get(namespace)
        if story is None:
            if len(self._stories) >= _MOST_NAMESPACES:
                return
            story = self._stories[namespace] = _Story(_object(where, namespace, self._name))
        story.see(event, where)


class _Story:
    """What the events so far say of one object."""

    def __init__(self, where: BlamedObject) -> None:
        self.where = where
        self.document: dict[str, Any] | None = None
        self._stored: dict[str, Any] | None = None
        """The object after the last event; None where that is not known."""
        self._written: dict[Place, Writer] = {}
        self._removed: dict[Place, Writer] = {}
        self._changers: dict[Place, tuple[Changer, ...]] = {}
        self._in_turn: dict[Place, tuple[Writer, ...]] = {}
        self._changed: set[Place] = set()
        """What differs since the event before, as far as that one is known."""
        self._deeds: list[Deed] = []
        self._is_gone = False
        self.unseen = 0
        """Writes of which the audit level shows no field."""
        self._first_unknown = False
        """The first write was an update: what it changed is not known."""

    @property
    def knows_anything(self) -> bool:
        """Whether an event was certainly about this object."""
        return bool(self._written or self._deeds or self.document)

    def see(self, event: Event, where: ObjectReference) -> None:
        """Take one successful write."""
        by = Writer(
            event.username, event.manager, _through(event, where), rfc3339(event.time),
            exact=True, source="audit",
        )  # fmt: skip
        if where.uid:
            self.where = msgspec.structs.replace(self.where, uid=where.uid)
        if event.verb == "deletecollection":
            self._see_deletion_of_many(event, by)
        elif event.verb == "delete":
            self._see_deletion(event, by)
        elif where.subresource == "eviction":
            self._do("deleted", by, "evicted: the pod is deleted as far as its budget allows")
        elif where.subresource == "scale":
            self._see_scaling(event, by)
        elif where.subresource == "binding":
            self._claim({("spec", "nodeName")}, by)
        else:
            self._see_write(event, where, by)

    def report(self, field: str) -> Blame:
        """Return the report; raises NoSuchFieldError."""
        document = self.document or {}
        rows = dict(self._rows(document))
        places = choose(field, rows) if field else tuple(rows)
        return Blame(
            self.where,
            exists=not self._is_gone,
            fields=tuple(rows[one] for one in places),
            deeds=tuple(self._deeds),
            notes=tuple(self._notes([rows[one] for one in places])),
        )

    def _rows(self, document: Mapping[str, Any]) -> Iterator[tuple[Place, BlamedField]]:
        owned = _owners(document)
        there = dict(written_leaves(document))
        places = dict.fromkeys((*there, *self._written, *self._removed))
        for place in places:
            is_there = place in there
            writer = self._written.get(place) or self._removed.get(place)
            also: tuple[Writer, ...] = ()
            if writer is None and place in owned:
                every = [Writer("", one.manager, one.through, one.time) for one in owned[place]]
                writer, also = every[0], tuple(every[1:])
            changers = self._changers.get(place, ())
            row = BlamedField(
                field=show(place),
                pointer=pointer_of(place, document) if is_there else "",
                writer=writer,
                also=also,
                changed_by=changers,
                removed=place in self._removed,
                in_turn=self._in_turn.get(place, ()),
            )
            yield place, row

    def _notes(self, rows: Iterable[BlamedField]) -> Iterator[str]:
        shown = tuple(rows)
        if self.unseen:
            yield (
                f"{self.unseen} writes are logged at level Metadata, which shows no fields: the "
                "last writer of a field may be one of them"
            )
        if self._first_unknown:
            yield (
                "the first write in the log is an update: what it changed is not known; older "
                "fields are told by managedFields where the log has them"
            )
        if any(one.writer and not one.writer.exact for one in shown):
            yield "a time with ~ is from managedFields: the manager's last change of any field"
        if any(one.writer is None for one in shown):
            yield "-: written before the log begins, or a default of the API server"

    def _do(self, what: str, by: Writer, text: str = "") -> None:
        last = self._deeds[-1] if self._deeds else None
        if what == "scaled" and last and (last.what, last.by.name) == (what, by.name):
            self._deeds.pop()
        self._deeds.append(Deed(what, by, text))
        del self._deeds[:-_MOST_DEEDS]

    def _see_scaling(self, event: Event, by: Writer) -> None:
        """Take a write of /scale: it sets spec.replicas of nearly every kind."""
        scale = decode_object(event.response_object) or decode_object(event.request_object)
        spec = get(scale, "spec")
        # omitempty: a Scale without replicas is one of 0 (pkg/apis/autoscaling/types.go).
        replicas = spec.get("replicas", 0) if isinstance(spec, dict) else None
        if replicas is not None and replicas == get(self._stored, *map(str, _REPLICAS)):
            return
        self._claim({_REPLICAS}, by)
        if self._stored is not None and replicas is not None:
            self._take_turn([_REPLICAS], by)
        for held in (self._stored, self.document):
            if replicas is not None and held is not None and isinstance(held.get("spec"), dict):
                held["spec"] = {**held["spec"], "replicas": replicas}

    def _see_deletion(self, event: Event, by: Writer) -> None:
        after = decode_object(event.response_object)
        waits = _is_object(after) and _waits(after)
        text = _KNOWN_USERS.get(by.user, "")
        if waits:
            finalizers = get(after, "metadata", "finalizers")
            kept = ", ".join(map(str, finalizers if isinstance(finalizers, list) else ()))
            text = "; ".join(filter(None, (text, f"finalizers kept it: {kept}" if kept else "")))
            self._stored = self.document = after
        elif self._deeds and self._deeds[-1].what == "deletion asked for" and not text:
            text = "it ended after the deletion that was asked for"
        self._do("deletion asked for" if waits else "deleted", by, text)
        self._is_gone = not waits

    def _see_deletion_of_many(self, event: Event, by: Writer) -> None:
        deleted = decode_object(event.response_object)
        items = get(deleted, "items")
        if isinstance(items, list):
            if self.where.name not in [get(one, "metadata", "name") for one in items]:
                return
            self._do("deleted", by, _KNOWN_USERS.get(by.user, ""))
            self._is_gone = True
        elif self.knows_anything:
            self._do("deletion of many", by, "of the whole collection or by labels: perhaps of it")

    def _see_write(self, event: Event, where: ObjectReference, by: Writer) -> None:
        status = event.response_status
        # Server-side apply creates by a patch.
        is_new = event.verb == "create" or (status is not None and status.code == _CREATED)
        if is_new and not where.subresource:
            self._begin(by)
        after = decode_object(event.response_object)
        calls = tuple(one for one in read_calls(event.annotations or {}) if one.mutated)
        if _is_object(after):
            self._compare(after, event, by)
        else:
            after = self._guess(event, where, by, calls)
        by_webhooks = self._note_calls(calls, after, by)
        self._take_turn(self._changed - by_webhooks, by)
        self._changed = set()
        self._look_for_end(after, by)

    def _begin(self, by: Writer) -> None:
        self._stored, self.document = {}, None
        self._written, self._removed, self._changers, self._in_turn = {}, {}, {}, {}
        self._is_gone, self._first_unknown, self.unseen = False, False, 0
        self._do("created", by)

    def _compare(self, after: dict[str, Any], event: Event, by: Writer) -> None:
        """Take an answer: what differs from the answer before was written."""
        now = dict(written_leaves(after))
        if self._stored is None:
            self._first_unknown |= not self._written
            sent = decode_object(event.request_object) if event.verb == "patch" else None
            owned = _owners(after)
            asked = [one for one in _asked(sent) if one in now]
            self._claim([one for one in asked if _may_be_by(event, owned.get(one))], by)
        else:
            old = dict(written_leaves(self._stored))
            set_now = [one for one in now if one not in old or old[one] != now[one]]
            dropped = [one for one in old if one not in now]
            self._claim(set_now, by)
            self._drop(dropped, by)
            self._changed = {*set_now, *dropped}
        self._stored = self.document = after

    def _guess(
        self, event: Event, where: ObjectReference, by: Writer, calls: Iterable[Call]
    ) -> dict[str, Any] | None:
        """Take a write without an answer; return the object after it, None if not known."""
        sent = decode_object(event.request_object)
        if not isinstance(sent, dict | list):
            self.unseen += 1
            part = f"/{where.subresource} " if where.subresource else ""
            if not self._deeds or self._deeds[-1].what != "created" or event.verb != "create":
                self._do("written", by, f"{part}at a level that shows no fields".strip())
            self._stored = None
            return None
        after: dict[str, Any] | None = None
        if isinstance(sent, list):
            after = _patched(self._stored, sent)
        elif event.verb in ("create", "update"):
            after = self._put(sent, where.subresource)
        if after is None:
            self._first_unknown |= self._stored is None and not self._written
            self._claim(list(_asked(sent)), by)
            self._stored = None
            return None
        for call in calls:
            after = _patched(after, msgspec.to_builtins(call.operations or ())) or after
        self._compare(after, event, by)
        return after

    def _put(self, sent: dict[str, Any], subresource: str) -> dict[str, Any] | None:
        """Return the object that an update or create stores, as far as the sent one tells."""
        if subresource == "status":
            held = self._stored
            return None if held is None else {**held, "status": sent.get("status")}
        rest = {key: value for key, value in sent.items() if key != "status"}
        status = (self._stored or {}).get("status")
        return rest if status is None else {**rest, "status": status}

    def _claim(self, places: Collection[Place], by: Writer) -> None:
        for place in places:
            self._written[place] = by
            self._removed.pop(place, None)
            self._changers.pop(place, None)
        is_created = bool(self._deeds) and self._deeds[-1] == Deed("created", by)
        if _REPLICAS in places and not is_created:
            self._do("scaled", by)

    def _drop(self, places: Iterable[Place], by: Writer) -> None:
        for place in places:
            self._written.pop(place, None)
            self._changers.pop(place, None)
            self._removed[place] = by

    def _take_turn(self, places: Iterable[Place], by: Writer) -> None:
        for place in places:
            self._in_turn[place] = next_in_turn(self._in_turn.get(place, ()), by)

    def _note_calls(
        self, calls: Iterable[Call], after: Mapping[str, Any] | None, by: Writer
    ) -> AbstractSet[Place]:
        """Note which webhooks changed which fields, also where the stored value stayed the same.

        Return these fields.
        """
        document = after if after is not None else self.document or {}
        known = dict.fromkeys((*dict(written_leaves(document)), *self._removed, *self._written))
        found: dict[Place, tuple[Changer, ...]] = {}
        for call in calls:
            changer = Changer("webhook", call.name, Confidence.CERTAIN)
            for operation in call.operations or ():
                touched = _touched(operation.path, document)
                places = [one for one in known if touched and covers([touched], one)]
                if not places and touched and after is None and is_written(touched):
                    self._claim([touched], by)
                    places = [touched]
                for place in places:
                    if changer not in found.get(place, ()):
                        found[place] = (*found.get(place, ()), changer)
        self._changers.update(found)
        return found.keys()

    def _look_for_end(self, after: Mapping[str, Any] | None, by: Writer) -> None:
        """Note the write that removed the last finalizer of a deleted object: it is gone now."""
        is_deleted = isinstance(get(after, "metadata", "deletionTimestamp"), str)
        if is_deleted and not _waits(after) and not self._is_gone:
            self._do("deleted", by, "removed the last finalizer")
            self._is_gone = True


def _patched(document: dict[str, Any] | None, operations: Sequence[Any]) -> dict[str, Any] | None:
    """Return what a JSON Patch makes of an object; None where it does not apply."""
    if document is None:
        return None
    try:
        after = apply_patch(document, list(operations))
    except UnknownStagesError:
        return None
    return after if isinstance(after, dict) else None


def _owners(document: Mapping[str, Any]) -> dict[Place, tuple[Manager, ...]]:
    try:
        return owners(document)
    except UnreadableFieldsError:
        return {}


def _may_be_by(event: Event, managers: Sequence[Manager] | None) -> bool:
    """Whether a patch can have written a field that it names: an apply often changes nothing.

    Then the manager's entry is as old as its last change.
    """
    if not managers:
        return True
    times = [parse_time(one.time) for one in managers if one.manager == event.manager]
    return any(one and abs(one.timestamp() - event.time) <= _SAME for one in times)


def _asked(sent: Any) -> Iterator[Place]:
    """Yield the places that a patch or object names; keys of list items and directives aside."""
    if isinstance(sent, list):
        for operation in sent:
            pointer = operation.get("path") if isinstance(operation, dict) else None
            if isinstance(pointer, str) and operation.get("op") != "test":
                yield _plain_place(pointer)
        return
    for place, value in written_leaves(sent) if isinstance(sent, dict) else ():
        of_item = len(place) > 1 and isinstance(place[-2], Item) and place[-2].label == value
        directive = any(isinstance(one, str) and one.startswith("$") for one in place)
        if not of_item and not directive and value is not None:
            yield place


def _plain_place(pointer: str) -> Place:
    try:
        return tuple(Item(token) if token.isdecimal() else token for token in from_pointer(pointer))
    except ValueError:
        return ()


def _touched(pointer: str, after: Mapping[str, Any]) -> Place:
    """Return the place of an operation; that above it where the value was removed."""
    return place_of_pointer(pointer, after) or _plain_place(pointer)


def _through(event: Event, where: ObjectReference) -> str:
    return f"{event.verb} /{where.subresource}" if where.subresource else event.verb


def _object(where: ObjectReference, namespace: str, name: str) -> BlamedObject:
    return BlamedObject(
        where.api_group, where.api_version, where.resource, namespace, name, where.uid
    )


def _name_in(event: Event) -> str:
    """Return the name that the API server gave a created object; "" where the log lacks it."""
    for raw in (event.response_object, event.request_object):
        name = get(decode_object(raw), "metadata", "name")
        if isinstance(name, str) and name:
            return name
    return ""


def _is_object(value: Any) -> bool:
    metadata = value.get("metadata") if isinstance(value, dict) else None
    return isinstance(metadata, dict) and value.get("kind") != "Status"


def _waits(deleted: Any) -> bool:
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
