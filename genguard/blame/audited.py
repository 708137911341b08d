"""Read audit logs: who created, wrote, scaled and deleted one object, event by event.

Each answer is compared with the one before: what differs was written by the event's user. Below
level RequestResponse there are no answers, and no field is known, but who wrote, scaled and deleted
it is. Annotations hold the patches of webhooks (genguard/audit/event.py).

State is kept for one object only, in each namespace that has one of this name. Bounded.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from genguard.admission.review import Operation
from genguard.audit.event import (
    Call,
    Event,
    ObjectReference,
    decode_object,
    operation_of,
    read_calls,
)
from genguard.blame.managed import Manager, UnreadableFieldsError, owners
from genguard.blame.places import Place, choose, leaves, place_of_pointer, pointer_of, show
from genguard.blame.report import (
    Blame,
    BlamedField,
    BlamedObject,
    Changer,
    Deed,
    Writer,
    is_written,
    next_in_turn,
    notes_on,
    rfc3339,
)
from genguard.detection.finding import Confidence
from genguard.objects.fields import ABSENT, get

_COMPLETE: Final = "ResponseComplete"
_VERBS: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_REPLICAS: Final[Place] = ("spec", "replicas")
_MOST_DEEDS: Final = 20
_MOST_NAMESPACES: Final = 1_000
_ACCOUNT: Final = "system:serviceaccount:kube-system:"
_WHY_DELETED: Final = {
    f"{_ACCOUNT}generic-garbage-collector": "the garbage collector: its owner is gone, or is "
    "deleted in the foreground",
    f"{_ACCOUNT}namespace-controller": "its namespace is deleted",
    f"{_ACCOUNT}ttl-after-finished-controller": "it had finished, and its time to live was over",
    f"{_ACCOUNT}pod-garbage-collector": "its node is gone, or there are too many finished pods",
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
        self._stories: Final[dict[str, Story]] = {}
        self._events = 0

    def take(self, event: Event) -> None:
        """Note one event."""
        if event.stage != _COMPLETE:
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
            if namespace not in self._stories and len(self._stories) < _MOST_NAMESPACES:
                kind = where.api_group, where.api_version, where.resource
                self._stories[namespace] = Story(BlamedObject(*kind, namespace, self._name, ""))
            if story := self._stories.get(namespace):
                story.see(event, where)

    def find(self) -> "Story":
        """Return what is known of the object; raises NotInLogError."""
        found = [one for one in self._stories.values() if one.knows_anything]
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(sorted(one.where.namespace for one in found))
            raise NotInLogError(f"{self._name!r} is in the namespaces {names}: give -n")
        where = f" in namespace {self._namespace}" if self._namespace else ""
        raise NotInLogError(
            f"none of the {self._events} events is a write of {self._name!r}{where}"
        )


@dataclass(slots=True)
class _Field:
    """What is known of one field: see BlamedField."""

    writer: Writer | None = None
    is_removed: bool = False
    changers: tuple[Changer, ...] = ()
    in_turn: tuple[Writer, ...] = ()


class Story:
    """What the events so far say of one object."""

    def __init__(self, where: BlamedObject) -> None:
        self.where = where
        self.document: dict[str, Any] | None = None
        """The last that was seen; it may be older than the last write."""
        self.unseen = 0
        """Writes of which the audit level shows no field."""
        self._stored: dict[str, Any] | None = None
        """The object after the last event; None where that is not known."""
        self._fields: dict[Place, _Field] = {}
        self._deeds: Final[list[Deed]] = []
        self._is_gone = False
        self._began_earlier = False

    @property
    def knows_anything(self) -> bool:
        """Whether an event was certainly about this object."""
        return bool(self._fields or self._deeds or self.document)

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
            self._claim({("spec", "nodeName"): False}, by)
        else:
            self._see_write(event, where, after, by)

    def report(self, field: str = "") -> Blame:
        """Return the report; raises NoSuchFieldError."""
        document = self.document or {}
        owned = _owners(document)
        there = _written(document)
        rows = []
        for place in choose(field, dict.fromkeys((*there, *self._fields))):
            known = self._fields.get(place, _Field())
            owning = [Writer.of(one) for one in owned.get(place, ())]
            writers = [known.writer] if known.writer else owning
            row = BlamedField(
                field=show(place),
                pointer=pointer_of(place) if place in there else "",
                writer=writers[0] if writers else None,
                also=tuple(writers[1:]),
                changed_by=known.changers,
                removed=known.is_removed,
                in_turn=known.in_turn,
            )
            rows.append(row)
        return Blame(
            self.where,
            exists=not self._is_gone,
            fields=tuple(rows),
            deeds=tuple(self._deeds),
            notes=tuple(self._notes(rows)),
        )

    def _notes(self, rows: Sequence[BlamedField]) -> Iterator[str]:
        if self.unseen:
            yield (
                f"{self.unseen} writes are logged below level RequestResponse, and show no fields: "
                "the last writer of a field may be one of them"
            )
        if self._began_earlier:
            yield (
                "the first write in the log is an update: what it changed is not known; older "
                "fields are told by managedFields where the log has them"
            )
        yield from notes_on(rows)

    def _do(self, what: str, by: Writer, text: str = "") -> None:
        last = self._deeds[-1] if self._deeds else None
        if what == "scaled" and last and (last.what, last.by.name) == (what, by.name):
            self._deeds.pop()
        self._deeds.append(Deed(what, by, text))
        del self._deeds[:-_MOST_DEEDS]

    def _see_scaling(self, scale: Any, by: Writer) -> None:
        """Take a write of /scale: it sets spec.replicas of nearly every kind."""
        spec = get(scale, "spec")
        # omitempty: a Scale without replicas is one of 0 (pkg/apis/autoscaling/types.go).
        replicas = spec.get("replicas", 0) if isinstance(spec, dict) else None
        if replicas is not None and replicas == get(self._stored, *_REPLICAS):
            return
        self._claim({_REPLICAS: False}, by)
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
        elif self._deeds and self._deeds[-1].what == "deletion asked for" and not text:
            text = "it ended after the deletion that was asked for"
        self._do("deletion asked for" if waits else "deleted", by, text)
        self._is_gone = not waits

    def _see_deletion_of_many(self, items: Any, by: Writer) -> None:
        if not isinstance(items, list):
            if self.knows_anything:
                text = "of the whole collection or by labels: perhaps of it"
                self._do("deletion of many", by, text)
        elif self.where.name in [get(one, "metadata", "name") for one in items]:
            self._do("deleted", by, _WHY_DELETED.get(by.user, ""))
            self._is_gone = True

    def _see_write(
        self, event: Event, where: ObjectReference, after: dict[str, Any] | None, by: Writer
    ) -> None:
        is_new = operation_of(event) is Operation.CREATE and not where.subresource
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
        now = _written(after)
        if self._stored is None:
            self._began_earlier |= not self._fields
            changed = dict.fromkeys(_asked(event, now, after), False)
        else:
            old = _written(self._stored)
            changed = {
                place: place not in now
                for place in (*now, *(one for one in old if one not in now))
                if now.get(place, ABSENT) != old.get(place, ABSENT)
            }
        self._claim(changed, by)
        by_webhooks = self._note_calls(read_calls(event.annotations), now, after)
        for place in changed.keys() - by_webhooks if self._stored is not None else ():
            self._fields[place].in_turn = next_in_turn(self._fields[place].in_turn, by)
        if _REPLICAS in changed and not is_new:
            self._do("scaled", by)
        self._stored = self.document = after
        is_deleted = isinstance(get(after, "metadata", "deletionTimestamp"), str)
        if is_deleted and not _waits(after) and not self._is_gone:
            self._do("deleted", by, "removed the last finalizer")
            self._is_gone = True

    def _claim(self, changed: Mapping[Place, bool], by: Writer) -> None:
        """Note who wrote places; of each whether it was removed."""
        for place, is_removed in changed.items():
            before = self._fields.get(place, _Field())
            self._fields[place] = _Field(by, is_removed, (), before.in_turn)

    def _note_calls(
        self, calls: Iterable[Call], now: Mapping[Place, Any], after: Mapping[str, Any]
    ) -> set[Place]:
        """Note which webhooks changed which fields, also where the stored value stayed the same."""
        found: dict[Place, dict[Changer, None]] = {}
        for call in calls:
            for operation in (call.operations or ()) if call.mutated else ():
                touched = place_of_pointer(operation.path, after)
                for place in (*now, *self._fields) if touched else ():
                    if place[: len(touched or ())] == touched:
                        changer = Changer("webhook", call.name, Confidence.CERTAIN)
                        found.setdefault(place, {})[changer] = None
        for place, changers in found.items():
            self._fields.setdefault(place, _Field()).changers = tuple(changers)
        return set(found)


def _written(document: Mapping[str, Any]) -> dict[Place, Any]:
    return {place: value for place, value in leaves(document) if is_written(place)}


def _owners(document: Mapping[str, Any]) -> dict[Place, tuple[Manager, ...]]:
    try:
        return owners(document)
    except UnreadableFieldsError:
        return {}


def _asked(event: Event, now: Iterable[Place], after: Mapping[str, Any]) -> Iterator[Place]:
    """Yield the leaves that a patch names and nobody owns; keys of list items aside.

    An apply often changes nothing: of a field with an owner the entry in managedFields says more.
    """
    sent = decode_object(event.request_object) if event.verb == "patch" else None
    named = {place for place, value in leaves(sent) if place[-2:-1] != (value,)}
    operations = sent if isinstance(sent, list) else []
    pointers = [get(one, "path") for one in operations if get(one, "op") != "test"]
    below = [place_of_pointer(one, after) for one in pointers if isinstance(one, str)]
    owned = _owners(after)
    for place in now:
        is_named = place in named or any(one == place[: len(one)] for one in below if one)
        if is_named and place not in owned:
            yield place


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
