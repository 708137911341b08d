"""The answer of `genguard blame`: one row for each field of an object, from all that is known.

The owner of a field by managedFields is its last writer. A write that a running genguard saw, or an
audit event, adds the user and the exact time; for a field without an owner it names the writer.
Webhooks change requests before managedFields are computed, so these name the requester: who changed
the value on its way is known from writes and findings alone.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Self

import msgspec

from genguard.blame.managed import BEFORE_FIRST_APPLY, Manager, owners
from genguard.blame.places import (
    Item,
    NoSuchFieldError,
    Place,
    choose_absent,
    find_place,
    has_place,
    leaves,
    place_of_pointer,
    pointer_of,
    show,
)
from genguard.detection.finding import Actor, Confidence
from genguard.objects.fields import to_pointer
from genguard.objects.metadata import parse_time
from genguard.objects.served import Served

_STORED: Final = "yes"
_NOT_STORED: Final = "no, it changed nothing"
_SUSPECT: Final = "suspect"


class _Step(msgspec.Struct, rename="camel"):
    time: float
    user: str
    field_manager: str
    subresource: str
    stored: str
    changed: tuple[str, ...]
    others: tuple[str, ...] | None


class _Finding(msgspec.Struct, rename="camel"):
    id: str
    detector: str
    state: str
    paths: tuple[str, ...]
    actors: tuple[Actor, ...]
    message: str = ""


class ObjectAnswer(msgspec.Struct):
    """The answer of /api/object, as far as it is read."""

    writes: tuple[_Step, ...] = ()
    findings: tuple[_Finding, ...] = ()


class _Webhook(msgspec.Struct):
    configuration: str
    webhook: str
    role: str


class WebhooksAnswer(msgspec.Struct):
    """The answer of /api/webhooks, as far as it is read."""

    webhooks: tuple[_Webhook, ...] = ()
    policies: tuple[str, ...] = ()

    @property
    def suspects(self) -> tuple[str, ...]:
        """The webhooks that are called between genguard's two, as findings name them."""
        return tuple(
            f"{one.configuration}/{one.webhook}" for one in self.webhooks if one.role == _SUSPECT
        )


class SeenWrite(msgspec.Struct, frozen=True):
    """One write.

    others  what other webhooks changed on its way; None where that was not seen
    is_stored  whether that is known
    """

    at: float
    user: str
    manager: str
    subresource: str
    changed: frozenset[Place]
    others: frozenset[Place] | None
    is_stored: bool

    @property
    def time(self) -> str:
        """RFC 3339, in seconds."""
        return rfc3339(self.at)


class SeenFinding(msgspec.Struct, frozen=True, rename="camel"):
    """One finding that is not resolved."""

    id: str
    detector: str
    message: str
    places: frozenset[Place]
    actors: tuple[Actor, ...]


class Seen(msgspec.Struct, frozen=True):
    """Everything that a server knows of one object, the latest write first.

    writes     those that changed something
    attempts   those that changed nothing in the end: webhooks took back what was asked for
    called     the webhooks that may change a write, by subresource: "" and "status"
    """

    writes: tuple[SeenWrite, ...] = ()
    attempts: tuple[SeenWrite, ...] = ()
    findings: tuple[SeenFinding, ...] = ()
    called: Mapping[str, tuple[str, ...]] = {}


def seen(
    answer: ObjectAnswer, called: Mapping[str, WebhooksAnswer], document: Mapping[str, Any]
) -> Seen:
    """Make it from a server's answers."""
    writes: dict[bool, list[SeenWrite]] = {True: [], False: []}
    for one in sorted(answer.writes, key=lambda one: one.time, reverse=True):
        seen_write = SeenWrite(
            at=one.time,
            user=one.user,
            manager=one.field_manager,
            subresource=one.subresource,
            changed=frozenset(_places(one.changed, document)),
            others=None if one.others is None else frozenset(_places(one.others, document)),
            is_stored=one.stored == _STORED,
        )
        writes[one.stored != _NOT_STORED].append(seen_write)
    findings = (
        SeenFinding(
            one.id, one.detector, one.message, frozenset(_places(one.paths, document)), one.actors
        )
        for one in answer.findings
        if one.state != "resolved"
    )
    return Seen(
        tuple(writes[True]),
        tuple(writes[False]),
        tuple(findings),
        {subresource: one.suspects for subresource, one in called.items()},
    )


def _places(pointers: tuple[str, ...], document: Mapping[str, Any]) -> Iterator[Place]:
    """Yield places; a whole spec or status is what a server says of writes it did not compare."""
    for pointer in pointers:
        place = place_of_pointer(pointer, document)
        if place is not None and len(place) > 1:
            yield place


def rfc3339(at: float) -> str:
    """Format Unix seconds as managedFields do."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}"


_SAME: Final = 1.5
"""Seconds: managedFields have whole seconds, taken a little after the review."""
_OF_SERVER: Final = frozenset(
    {"uid", "resourceVersion", "generation", "creationTimestamp", "selfLink", "managedFields"}
    | {"name", "namespace", "deletionTimestamp", "deletionGracePeriodSeconds", "generateName"}
)
"""Fields of metadata that the API server sets, or that say which object it is."""
_NOT_WRITTEN: Final = frozenset({"apiVersion", "kind"})
_MOST_NOTED: Final = 3
MOST_IN_TURN: Final = 4


class Writer(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Who wrote a field.

    user       "" where only managedFields tell
    manager    the field manager; "" where the API server derived it from the user agent
    through    `Apply`, `Update /status`, `patch /scale`
    time       RFC 3339; "" where it is not known
    exact      the time of this very write; otherwise of the manager's last change of any field
    source     managedFields, server or audit
    """

    user: str = ""
    manager: str = ""
    through: str = ""
    time: str = ""
    exact: bool = False
    source: str = "managedFields"

    @property
    def name(self) -> str:
        """The user and the manager as one text."""
        if self.user and self.manager and self.manager != self.user:
            return f"{self.user} ({self.manager})"
        return self.user or self.manager

    def is_same(self, other: "Writer") -> bool:
        """Whether it is the same user; the same manager where a user is not known."""
        if self.user and other.user:
            return self.user == other.user
        return bool(self.manager) and self.manager == other.manager


class Changer(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Who changed a value on its way; `finding` is the id of the finding that names it."""

    type: str
    name: str
    confidence: Confidence
    finding: str = ""

    @property
    def label(self) -> str:
        """As people read it."""
        return Actor(self.type, self.name, "", self.confidence).label


class BlamedField(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One field: who wrote it last, who owns it too, who changed it on its way.

    field    `status.conditions[Available].status`
    pointer  the same as a JSON Pointer into the object; "" for an object that does not exist
    writer   None where nobody is known: a default of the API server, or written before all that
             was seen
    removed  the object has the field no more: those of changed_by removed it from the request of
             the writer; without any, the writer did
    in_turn  who changed it in turn, the latest last and MOST_IN_TURN at most; () where only
             managedFields tell. A write that is not known to have been stored, and one in which
             another webhook changed the field, are left out
    """

    field: str
    pointer: str
    writer: Writer | None
    also: tuple[Writer, ...] = ()
    changed_by: tuple[Changer, ...] = ()
    findings: tuple[str, ...] = ()
    removed: bool = False
    in_turn: tuple[Writer, ...] = ()


class BlamedObject(msgspec.Struct, frozen=True, rename="camel"):
    """The object of a report; empty texts where they are not known."""

    group: str
    version: str
    resource: str
    namespace: str
    name: str
    uid: str

    @classmethod
    def of(cls, served: Served, namespace: str, name: str, uid: str) -> Self:
        """Return an object of a kind."""
        return cls(served.group, served.version, served.resource, namespace, name, uid)

    @property
    def resource_name(self) -> str:
        """`deployments.apps`, `pods`."""
        return f"{self.resource}.{self.group}".rstrip(".")

    def __str__(self) -> str:
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.resource_name}/{self.name}{where}"


class Deed(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Something that was done to the whole object: created, scaled, deleted, finalizer removed."""

    what: str
    by: Writer
    text: str = ""


class Blame(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One report; `notes` say what could not be seen."""

    object: BlamedObject
    exists: bool
    fields: tuple[BlamedField, ...]
    deeds: tuple[Deed, ...] = ()
    notes: tuple[str, ...] = ()


def blame_live(
    where: BlamedObject, document: Mapping[str, Any], known: Seen | None, field: str = ""
) -> Blame:
    """Return the report of an object that exists; `known` is what a server saw, None without one.

    Raises NoSuchFieldError and UnreadableFieldsError.
    """
    owned, seen = owners(document), known or Seen()
    try:
        wanted = find_place(field, document) if field else ()
    except NoSuchFieldError:
        gone = choose_absent(field, _absent(seen, document, found_only=False))
        if not gone:
            raise
        rows = [_gone_row(place, seen) for place in gone]
        return Blame(where, exists=True, fields=tuple(rows))
    rows = [
        _row(place, document, owned.get(place, ()), seen)
        for place, _ in written_leaves(document)
        if place[: len(wanted)] == wanted
    ]
    rows += [
        _gone_row(place, seen)
        for place in _absent(seen, document, found_only=True)
        if place[: len(wanted)] == wanted
    ]
    notes = list(_notes(document, known, rows))
    if not wanted:
        told = {name for row in rows for name in row.findings}
        notes += [
            f"finding {one.id}, {one.detector}: {one.message}"
            for one in seen.findings
            if one.id not in told
        ][:_MOST_NOTED]
    if wanted and not rows:
        notes.insert(0, f"{show(wanted)}: the API server sets it, and no manager owns it")
    return Blame(where, exists=True, fields=tuple(rows), notes=tuple(notes))


def _absent(seen: Seen, document: Mapping[str, Any], *, found_only: bool) -> tuple[Place, ...]:
    """Return the places that the object has no more, of findings and else of all writes."""
    places = [place for one in seen.findings for place in one.places]
    if not found_only:
        writes = (*seen.writes, *seen.attempts)
        places += [place for one in writes for place in (*one.changed, *(one.others or ()))]
    gone = {place for place in places if is_written(place) and not has_place(place, document)}
    return tuple(sorted(gone, key=show))


def _gone_row(place: Place, known: Seen) -> BlamedField:
    """Return the row of a field that the object has no more."""
    findings = [one for one in known.findings if covers(one.places, place)]
    changers = tuple(_changers(place, known, findings))
    everyone = sorted((*known.writes, *known.attempts), key=lambda one: one.at, reverse=True)
    asked = [
        one for one in everyone if covers((one.others or ()) if changers else one.changed, place)
    ]
    return BlamedField(
        field=show(place),
        pointer=to_pointer([one.label if isinstance(one, Item) else one for one in place]),
        writer=_of_write(asked[0]) if asked else None,
        changed_by=changers,
        findings=tuple(one.id for one in findings),
        removed=True,
        in_turn=_in_turn(place, known.writes),
    )


def written_leaves(document: Mapping[str, Any]) -> Iterator[tuple[Place, Any]]:
    """Yield each leaf that somebody can write, with its value, metadata first."""
    yield from (found for found in leaves(document) if found[0] and is_written(found[0]))


def is_written(place: Place) -> bool:
    """Whether somebody besides the API server can write a leaf."""
    is_given = place[0] == "metadata" and (len(place) == 1 or place[1] in _OF_SERVER)
    return place[0] not in _NOT_WRITTEN and not is_given


def covers(places: Iterable[Place], place: Place) -> bool:
    """Whether one of the places is this one or above it."""
    return any(place[: len(one)] == one for one in places)


def _row(
    place: Place, document: Mapping[str, Any], managers: Sequence[Manager], known: Seen
) -> BlamedField:
    writes = [one for one in known.writes if covers(one.changed, place)]
    writers = [_writer(one, writes) for one in managers]
    if not writers and writes:
        writers = [_of_write(writes[0])]
    findings = [one for one in known.findings if covers(one.places, place)]
    return BlamedField(
        field=show(place),
        pointer=pointer_of(place, document),
        writer=writers[0] if writers else None,
        also=tuple(writers[1:]),
        changed_by=tuple(_changers(place, known, findings)),
        findings=tuple(one.id for one in findings),
        in_turn=_in_turn(place, known.writes),
    )


def next_in_turn(writers: tuple[Writer, ...], by: Writer) -> tuple[Writer, ...]:
    """Return who changed a field in turn, after one more change."""
    before = writers[:-1] if writers and writers[-1].is_same(by) else writers
    return (*before[1 - MOST_IN_TURN :], by)


def _in_turn(place: Place, writes: Sequence[SeenWrite]) -> tuple[Writer, ...]:
    """Return who changed a field in turn; the latest of the writes comes first."""
    found: tuple[Writer, ...] = ()
    for one in reversed(writes):
        is_own = one.is_stored and not covers(one.others or (), place)
        if is_own and covers(one.changed, place):
            found = next_in_turn(found, _of_write(one))
    return found


def _writer(manager: Manager, writes: Sequence[SeenWrite]) -> Writer:
    """Return an owner as a writer, with what the writes say of it.

    A review names the manager only where the request does. Otherwise a write of the same second,
    through the same subresource, is the owner's.
    """
    by = [one for one in writes if _is_by(one, manager)]
    # Of several users within a second none is guessed.
    if by and (by[0].manager or len({one.user for one in by}) == 1):
        user, time = by[0].user, by[0].time
        return Writer(user, manager.manager, manager.through, time, exact=True, source="server")
    return Writer("", manager.manager, manager.through, manager.time)


def _is_by(write: SeenWrite, manager: Manager) -> bool:
    if write.manager:
        same = write.manager == manager.manager
        return same and write.subresource == manager.subresource
    time = parse_time(manager.time)
    near = time is not None and abs(time.timestamp() - write.at) <= _SAME
    return near and write.subresource == manager.subresource


def _of_write(write: SeenWrite) -> Writer:
    through = f"Update /{write.subresource}" if write.subresource else "Update"
    return Writer(write.user, write.manager, through, write.time, exact=True, source="server")


def _changers(place: Place, known: Seen, findings: Sequence[SeenFinding]) -> Iterator[Changer]:
    """Yield who changed a field on its way: by findings, else who was called when it changed."""
    found = {
        actor.name: Changer(actor.type, actor.name, actor.confidence, one.id)
        for one in reversed(findings)
        for actor in reversed(one.actors)
        if actor.type != "user"
    }
    if found:
        order = tuple(Confidence)
        yield from sorted(found.values(), key=lambda one: order.index(one.confidence))
        return
    writes = (*known.writes, *known.attempts)
    changed = [one for one in writes if one.others and covers(one.others, place)]
    if not changed:
        return
    names = known.called.get("status" if changed[0].subresource == "status" else "", ())
    sure = Confidence.LIKELY if len(names) == 1 else Confidence.POSSIBLE
    if not names:
        yield Changer("webhook", "not known", Confidence.POSSIBLE)
    yield from (Changer("webhook", name, sure) for name in names)


def _notes(
    document: Mapping[str, Any], known: Seen | None, rows: Sequence[BlamedField]
) -> Iterator[str]:
    if not (document.get("metadata") or {}).get("managedFields"):
        yield (
            "the object has no managedFields: something removed them, or it was not read from an "
            "API server; kubectl needs --show-managed-fields to print them"
        )
    if known is None:
        yield (
            "by managedFields alone: a webhook's changes count as its requester's, and there are "
            "no users; give --server URL of a genguard serve, or -f AUDIT-LOG"
        )
    elif known.attempts and not known.writes:
        many = len(known.attempts)
        yield (
            f"the server remembers {many} {'write' if many == 1 else 'writes'} of this object, by "
            f"{', '.join(sorted({one.user for one in known.attempts})[:_MOST_NOTED])}, and none "
            "changed what is stored"
        )
    elif not known.writes:
        more = ", only findings" if known.findings else ": users and webhooks are not known"
        yield f"the server remembers no write of this object{more}"
    if (document.get("metadata") or {}).get("deletionTimestamp"):
        yield (
            "its deletion was asked for, and finalizers or its grace period keep it; who asked is "
            "in the audit log alone: -f AUDIT-LOG"
        )
    if any(one.writer and not one.writer.exact and one.writer.time for one in rows):
        yield "a time with ~ is that of the manager's last change of any field: not later"
    if any(one.writer and one.writer.manager == BEFORE_FIRST_APPLY for one in rows):
        yield f"{BEFORE_FIRST_APPLY}: written before the first server-side apply; by whom is lost"
    if any(one.writer is None for one in rows):
        yield "-: nobody owns it: a default of the API server, or written by it"
