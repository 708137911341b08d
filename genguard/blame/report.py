"""The answer of `genguard blame`: one row for each field of an object, from all that is known.

The owner of a field by managedFields is its last writer. A write that a running genguard saw, or an
audit event, adds the user and the exact time; for a field without an owner it names the writer.
managedFields are made of what is asked for, so these name the requester: who changed the value on
its way is known from writes and findings alone. What they name and the object lacks was removed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Self

import msgspec

from genguard.blame.field_paths import FieldPath, choose, leaves, path_of_pointer, pointer_of, show
from genguard.blame.managed import BEFORE_FIRST_APPLY, Manager, owners, taken
from genguard.detection.finding import Actor, Confidence, Finding, FoundObject, labels_of
from genguard.objects.metadata import SET_BY_SERVER, parse_time
from genguard.objects.shown import few
from genguard.shipped import shipped

_STORED: Final = "yes"
_NOT_STORED: Final = "no, it changed nothing"
_SAME: Final = 1.5
"""Seconds: managedFields have whole seconds, taken a little after the review."""
_BOOKKEEPING: Final[FieldPath] = ("metadata", "managedFields")
_NOT_WRITTEN: Final = frozenset({"apiVersion", "kind"})
_MOST_NOTED: Final = 3
MOST_IN_TURN: Final = 4
NOTES: Final = shipped("genguard.blame", "notes.yaml", dict[str, str])
"""What a report says of what could not be seen, and of the marks in its table."""
Called = Mapping[str, Sequence[str]]
"""The webhooks that may change a write, by subresource: "" and "status"."""


class SeenWrite(msgspec.Struct, frozen=True, rename="camel"):
    """One write, as a server tells of it; `time` is in Unix seconds.

    changed  pointers to what differs from what was stored
    others   pointers to what other webhooks changed on its way; None where that was not seen
    """

    time: float
    user: str
    field_manager: str
    subresource: str
    stored: str
    changed: tuple[str, ...]
    others: tuple[str, ...] | None


class Seen(msgspec.Struct, frozen=True):
    """Everything that a server knows of one object: its answer of /api/object."""

    writes: tuple[SeenWrite, ...] = ()
    findings: tuple[Finding, ...] = ()


def rfc3339(at: float) -> str:
    """Format Unix seconds as managedFields do."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}"


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

    @classmethod
    def of(cls, manager: Manager) -> Self:
        """Return an owner of whom managedFields alone tell."""
        return cls("", manager.manager, manager.through, manager.time or "")

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


class FieldActor(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Who changed a value on its way; `finding` is the id of the finding that names it."""

    type: str
    name: str
    confidence: Confidence
    finding: str = ""

    @property
    def label(self) -> str:
        """As people read it."""
        return labels_of((Actor(self.type, self.name, "", self.confidence),))[0]


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
    changed_by: tuple[FieldActor, ...] = ()
    findings: tuple[str, ...] = ()
    removed: bool = False
    in_turn: tuple[Writer, ...] = ()


class ObjectAction(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Something that was done to the whole object: created, scaled, deleted, finalizer removed."""

    what: str
    by: Writer
    text: str = ""


class Blame(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One report; `notes` say what could not be seen."""

    object: FoundObject
    exists: bool
    fields: tuple[BlamedField, ...]
    actions: tuple[ObjectAction, ...] = ()
    notes: tuple[str, ...] = ()


def blame_live(
    where: FoundObject,
    document: Mapping[str, Any],
    known: Seen | None,
    field: str = "",
    called: Called | None = None,
) -> Blame:
    """Return the report of an object that exists; `known` is what a server saw, None without one.

    Without `called`, fields are left out whose removal on the way only managedFields show.
    Raises NoSuchFieldError and UnreadableFieldsError.
    """
    owned, seen = owners(document), known or Seen()
    seen = Seen(
        tuple(sorted(seen.writes, key=lambda write: write.time, reverse=True)),
        tuple(finding for finding in seen.findings if finding.state != "resolved"),
    )
    there = [path for path, _ in leaves(document) if path[:2] != _BOOKKEEPING]
    lost = {} if called is None else taken(document)
    gone = _gone(seen, document, there, every_write=bool(field))
    gone |= {path: pointer_of(path) for path in lost if is_written(path)}
    paths, owned = filter(is_written, choose(field, there, gone)), owned | lost
    rows = [_row(path, gone, owned.get(path, ()), seen, called or {}) for path in paths]
    notes = list(_notes(document, seen if known else None, rows))
    if not field:
        told = {name for row in rows for name in row.findings}
        notes += [
            f"finding {finding.id}, {finding.detector}: {finding.message}"
            for finding in seen.findings
            if finding.id not in told
        ][:_MOST_NOTED]
    elif not rows:
        notes.insert(0, f"{field}: the API server sets it, and no manager owns it")
    return Blame(where, exists=True, fields=tuple(rows), notes=tuple(notes))


def _gone(
    seen: Seen, document: Mapping[str, Any], there: Iterable[FieldPath], *, every_write: bool
) -> dict[FieldPath, str]:
    """Return the paths that the object has no more, of findings and perhaps of all writes."""
    pointers = [path for finding in seen.findings for path in finding.paths]
    for write in seen.writes if every_write else ():
        pointers += (*write.changed, *(write.others or ()))
    has = {path[:end] for path in there for end in range(len(path) + 1)}
    found = {path_of_pointer(pointer, document) or (): pointer for pointer in pointers}
    gone = [path for path in found if len(path) > 1 and is_written(path) and path not in has]
    return {path: found[path] for path in sorted(gone, key=show)}


def is_written(path: FieldPath) -> bool:
    """Whether somebody besides the API server can write a leaf."""
    if not path or path[0] in _NOT_WRITTEN:
        return False
    return path[0] != "metadata" or (len(path) > 1 and path[1] not in SET_BY_SERVER)


def _row(
    path: FieldPath,
    gone: Mapping[FieldPath, str],
    managers: Sequence[Manager],
    seen: Seen,
    called: Called,
) -> BlamedField:
    """Return the row of one field; `gone` has those that the object has no more."""
    # A FIELD may be below a map that is gone: its steps are the path.
    is_gone = any(path[: len(above)] == above for above in gone)
    pointer = gone.get(path) or pointer_of(path)
    findings = [finding for finding in seen.findings if _covers(finding.paths, pointer)]
    ways = [write.subresource for write in seen.writes if _covers(write.others or (), pointer)]
    ways += [manager.subresource for manager in managers if is_gone]
    changers = tuple(_changers(findings, ways, called))
    asked = [write for write in seen.writes if _covers(write.changed, pointer)]
    writes = [write for write in asked if write.stored != _NOT_STORED]
    if not is_gone:
        asked = writes
    elif changers:
        asked = [write for write in seen.writes if _covers(write.others or (), pointer)]
    writers = [_writer(manager, writes) for manager in managers] or [*map(_of_write, asked[:1])]
    in_turn: tuple[Writer, ...] = ()
    for write in reversed(writes):
        if write.stored == _STORED and not _covers(write.others or (), pointer):
            in_turn = next_in_turn(in_turn, _of_write(write))
    return BlamedField(
        field=show(path),
        pointer=pointer,
        writer=writers[0] if writers else None,
        also=tuple(writers[1:]),
        changed_by=changers,
        findings=tuple(finding.id for finding in findings),
        removed=is_gone,
        in_turn=in_turn,
    )


def _covers(pointers: Iterable[str], pointer: str) -> bool:
    """Whether one of the pointers leads to this field or to what it is in.

    A whole spec or status is what a server says of writes that it did not compare.
    """
    return any(f"{pointer}/".startswith(f"{above}/") for above in pointers if above.rfind("/") > 0)


def next_in_turn(writers: tuple[Writer, ...], by: Writer) -> tuple[Writer, ...]:
    """Return who changed a field in turn, after one more change."""
    before = writers[:-1] if writers and writers[-1].is_same(by) else writers
    return (*before[1 - MOST_IN_TURN :], by)


def _writer(manager: Manager, writes: Sequence[SeenWrite]) -> Writer:
    """Return an owner as a writer, with what the writes say of it.

    A review names the manager only where the request does. Otherwise a write of the same second,
    through the same subresource, is the owner's.
    """
    by = [write for write in writes if _is_by(write, manager)]
    # Nobody is guessed where several users wrote within a second.
    if by and (by[0].field_manager or len({write.user for write in by}) == 1):
        return msgspec.structs.replace(
            _of_write(by[0]), manager=manager.manager, through=manager.through
        )
    return Writer.of(manager)


def _is_by(write: SeenWrite, manager: Manager) -> bool:
    if write.subresource != manager.subresource:
        return False
    if write.field_manager:
        return write.field_manager == manager.manager
    time = parse_time(manager.time or "")
    return time is not None and abs(time.timestamp() - write.time) <= _SAME


def _of_write(write: SeenWrite) -> Writer:
    through = f"Update /{write.subresource}" if write.subresource else "Update"
    time = rfc3339(write.time)
    return Writer(write.user, write.field_manager, through, time, exact=True, source="server")


def _changers(
    findings: Sequence[Finding], ways: Sequence[str], called: Called
) -> Iterator[FieldActor]:
    """Yield who changed a field on its way: by findings, else who was called when it changed."""
    found = {
        actor.name: FieldActor(actor.type, actor.name, actor.confidence, finding.id)
        for finding in reversed(findings)
        for actor in reversed(finding.actors)
        if actor.type != "user"
    }
    if found:
        rank = tuple(Confidence).index
        yield from sorted(found.values(), key=lambda changer: rank(changer.confidence))
    elif ways:
        names = called.get("status" if ways[0] == "status" else "", ())
        sure = Confidence.LIKELY if len(names) == 1 else Confidence.POSSIBLE
        yield from (FieldActor("webhook", name, sure) for name in names or ("not known",))


def _notes(
    document: Mapping[str, Any], known: Seen | None, rows: Sequence[BlamedField]
) -> Iterator[str]:
    if not (document.get("metadata") or {}).get("managedFields"):
        yield NOTES["no-managed-fields"]
    if known is None:
        yield NOTES["managed-fields-alone"]
    elif all(write.stored == _NOT_STORED for write in known.writes) and known.writes:
        users = few(sorted({write.user for write in known.writes}))
        yield f"the server remembers writes by {users}, and none changed what is stored"
    elif not known.writes:
        more = ", only findings" if known.findings else ": users and webhooks are not known"
        yield f"the server remembers no write of this object{more}"
    if (document.get("metadata") or {}).get("deletionTimestamp"):
        yield NOTES["deletion-asked-for"]
    yield from notes_on(rows)


def notes_on(rows: Sequence[BlamedField]) -> Iterator[str]:
    """Yield what the marks in a table of these rows mean."""
    writers = [row.writer for row in rows]
    if any(writer and not writer.exact and writer.time for writer in writers):
        yield NOTES["inexact-time"]
    if any(writer and writer.manager == BEFORE_FIRST_APPLY for writer in writers):
        yield NOTES["before-first-apply"].format(BEFORE_FIRST_APPLY)
    if None in writers:
        yield NOTES["nobody"]
