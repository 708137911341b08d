"""Read events of audit.k8s.io/v1: split documents into events, and find webhooks in annotations.

Objects stay undecoded. An event holds what its level allows: at Metadata no objects, at Request the
sent object, at RequestResponse also the stored one (apiserver pkg/apis/audit/v1/types.go).

mutation.webhook.admission.k8s.io/round_R_index_I   {"configuration","webhook","mutated"}, any level
patch.webhook.admission.k8s.io/round_R_index_I      {..., "patch":[RFC 6902]}, from level Request on
failed-open.mutation.webhook.admission.k8s.io/...   the name of a webhook that could not be called
failed-open.validating.webhook.admission.k8s.io/... the same

A log may be hostile: an event that cannot be read, or is too deep or too much, ends none of those
behind it, and a list is never decoded as a whole; values are counted before they are decoded, and
names have a longest.

Source: apiserver pkg/admission/plugin/webhook/mutating/dispatcher.go. Round 1 is the reinvocation;
there is no round 2.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from sys import intern
from traceback import extract_tb
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import parse_qs

import msgspec

from genguard.admission.review import Operation
from genguard.detection.questions.refused import Refusal
from genguard.objects.fields import count_values, to_pointer
from genguard.objects.shown import listed

NO_OBJECT: Final = msgspec.Raw()
_BAD_REQUEST: Final = 400
_INVALID: Final = 422
_CONFLICT: Final = 409
_REFUSED: Final = frozenset({400, 403, 413, 422})
"""A webhook answers with any code that it likes, and with 400 or 403 where it says none; a policy
and the validation of the kind with 422, a quota with 403, the store with 413."""
_NO_ANSWER: Final = 500
_OF_SPEC: Final = 2
"""Steps to a field of spec, or of metadata."""
_TOO_LARGE: Final = "request is too large"
"""etcd api/v3/v3rpc/rpctypes/error.go:ErrRequestTooLarge"""
_OWNED: Final = "FieldManagerConflict"
"""apimachinery pkg/apis/meta/v1/types.go:CauseTypeFieldManagerConflict; its message is
`conflict with "MANAGER" using …` (pkg/util/managedfields/internal/conflict.go:printManager)"""
_CREATED: Final = 201
_TAKEN: Final = "AlreadyExists"
"""apimachinery pkg/apis/meta/v1/types.go:StatusReasonAlreadyExists"""
_OPERATIONS: Final = {
    "create": Operation.CREATE,
    "update": Operation.UPDATE,
    "patch": Operation.UPDATE,
    "delete": Operation.DELETE,
}
_TERMINATING: Final = "NamespaceTerminating"
"""apiserver pkg/admission/plugin/namespace/lifecycle/admission.go:Admit"""
_DECISION: Final = "authorization.k8s.io/decision"
_CUT: Final = "audit.k8s.io/truncated"
"""apiserver plugin/pkg/audit/truncate/truncate.go"""
_MUTATION: Final = re.compile(
    r"mutation\.webhook\.admission\.k8s\.io/(round_([0-9]{1,3})_index_([0-9]{1,6}))"
)
_PATCH: Final = "patch.webhook.admission.k8s.io/"
_FAILED_OPEN: Final = (
    "failed-open.mutation.webhook.admission.k8s.io/",
    "failed-open.validating.webhook.admission.k8s.io/",
)

MOST_VALUES: Final = 600_000
"""Of one event. The largest that an API server writes has two objects of 3 MiB and patches."""
_LONGEST_NAME: Final = 4_096
"""Characters. Kubernetes ends most names at 253, and a URL has no room for more than 8,192."""
_LONGEST_MANAGER: Final = 128
_LONGEST_QUERY: Final = 8_192
_END_OF_TIME: Final = 253_402_300_800
"""The year 10,000, in seconds since the epoch."""
_Name = Annotated[str, msgspec.Meta(max_length=_LONGEST_NAME)]

_OWN_WEBHOOKS: Final = ".genguard.io"


class User(msgspec.Struct, frozen=True):
    """The sender of a request."""

    username: _Name = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] | None = None


class ObjectReference(msgspec.Struct, rename="camel"):
    """The object of a request."""

    resource: _Name = ""
    namespace: _Name = ""
    name: _Name = ""
    uid: _Name = ""
    api_group: _Name = ""
    api_version: _Name = ""
    subresource: _Name = ""
    resource_version: _Name = ""


class Cause(msgspec.Struct, frozen=True):
    """One reason of a refusal; `field` is as `spec.replicas`."""

    reason: str = ""
    field: str = ""
    message: str = ""


class Details(msgspec.Struct, frozen=True):
    """More about a refusal."""

    causes: tuple[Cause, ...] = ()


class ResponseStatus(msgspec.Struct, frozen=True):
    """The result of a request; all but the code is there where it was refused.

    A message may repeat values: nothing of it is kept.
    """

    code: int = 0
    message: str = ""
    reason: str = ""
    details: Details = Details()


class Event(msgspec.Struct, rename="camel"):
    """One stage of one request."""

    level: str = ""
    stage: str = ""
    verb: str = ""
    request_uri: str = msgspec.field(default="", name="requestURI")
    user: User = User()
    impersonated_user: User | None = None
    user_agent: str = ""
    object_ref: ObjectReference | None = None
    response_status: ResponseStatus = ResponseStatus()
    stage_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    annotations: dict[str, str] = {}
    request_object: msgspec.Raw = NO_OBJECT
    response_object: msgspec.Raw = NO_OBJECT

    @property
    def time(self) -> float:
        """The time in seconds since the epoch. Events in a log are sorted by it."""
        return self.stage_timestamp.timestamp() if self.stage_timestamp else 0.0

    @property
    def actor(self) -> User:
        """The user who acted: the impersonated user, if there is one."""
        return self.impersonated_user or self.user

    @property
    def username(self) -> str:
        """The name of the user who acted."""
        return intern(self.actor.username)

    @property
    def manager(self) -> str:
        """The field manager as the API server derives it: the parameter, else the user agent."""
        given = self._query.get("fieldManager")
        manager = given[0] if given else self.user_agent.partition("/")[0]
        return intern(manager[:_LONGEST_MANAGER])

    @property
    def operation(self) -> Operation | None:
        """What was asked for; None for a read and for a whole collection."""
        found = _OPERATIONS.get(self.verb)
        if found is Operation.UPDATE and self.response_status.code == _CREATED:
            return Operation.CREATE  # a PUT, or an applied configuration, of what was not there
        is_named = self.object_ref is not None and self.object_ref.name != ""
        return found if is_named or found is Operation.CREATE else None

    @property
    def is_dry_run(self) -> bool:
        """Whether nothing was to be stored."""
        return "dryRun" in self._query

    @property
    def is_stored(self) -> bool:
        """Whether it was carried out."""
        return self.response_status.code < _BAD_REQUEST

    @property
    def is_refused(self) -> bool:
        """Whether the content was refused, in admission or after it: the user may write, not this.

        A conflict says nothing of the content: see `is_conflict`. 404, 415 and the like never come
        so far as admission. An overload says nothing of the content, nor does a namespace that is
        being deleted. A webhook that does not answer refuses as well, with 500.
        """
        status = self.response_status
        if self.annotations.get(_DECISION, "allow") != "allow":
            return False
        if status.code == _NO_ANSWER:
            return "webhook" in status.message or _TOO_LARGE in status.message
        if self.owners or status.reason == _TAKEN:
            return True
        is_ending = any(cause.reason == _TERMINATING for cause in status.details.causes)
        return status.code in _REFUSED and not is_ending

    @property
    def is_conflict(self) -> bool:
        """Whether it is an update of a version that is out of date."""
        is_update = self.verb in ("update", "patch") and not self.is_dry_run
        is_conflict = self.response_status.code == _CONFLICT
        return is_update and is_conflict and not self.owners

    @property
    def owners(self) -> frozenset[str]:
        """Return the field managers that own what it applies (KEP-555)."""
        causes = (cause for cause in self.response_status.details.causes if cause.reason == _OWNED)
        return frozenset(cause.message.partition('"')[2].partition('"')[0] for cause in causes)

    @property
    def refusal(self) -> Refusal:
        """Return why it was refused, where the answer tells."""
        owners, causes = sorted(self.owners), self.response_status.details.causes
        if not owners:
            is_taken = self.response_status.reason == _TAKEN
            return "an object of this name is there" if is_taken else "", ()
        sent, verb = decode_object(self.request_object), "owns" if len(owners) == 1 else "own"
        owned = tuple(_pointer_in(sent, cause.field) for cause in causes if cause.reason == _OWNED)
        return f"{listed(owners, 3)} {verb} fields that it applies", owned

    @property
    def is_cut(self) -> bool:
        """Whether the API server has left out objects that its level shows, for their size."""
        return _CUT in self.annotations

    def finds_invalid(self, call: "Call") -> bool:
        """Whether the answer says that a field is invalid which this webhook has set, or one in it.

        Hardly anything of a stored pod may be changed: the answer names its whole spec then.
        """
        status = self.response_status
        if status.code != _INVALID:
            return False
        words = (word[:-1] for word in status.message.split() if word.endswith(":"))
        fields = [steps_of(field) for field in (*words, *(x.field for x in status.details.causes))]
        patched = [step for operation in call.operations or () for step in _touched(operation)]
        return any(
            field and at[: len(field)] == field[: len(at)] for at in patched for field in fields
        )

    @property
    def _query(self) -> dict[str, list[str]]:
        return parse_qs(self.request_uri.partition("?")[2][:_LONGEST_QUERY])


def steps_of(field: str) -> list[str]:
    """Return the steps of `spec.containers[0].image`, and of the same as a pointer."""
    return field.replace("[", ".").replace("]", "").split(".") if field else []


def _pointer_in(value: Any, field: str) -> str:
    """Return `.metadata.labels.example.org/a` as a pointer; names in the value may have dots."""
    path: list[str] = []
    while isinstance(value, dict):
        names = [name for name in value if f"{field}.".startswith((f".{name}.", f".{name}["))]
        if not names:
            break
        path.append(max(names, key=len))
        field, value = field[1 + len(path[-1]) :], value[path[-1]]
    return to_pointer(path)


def _touched(operation: "PatchOperation") -> Iterator[list[str]]:
    """Yield where a patch writes, and the item of what it removes: others in it may need it."""
    steps = steps_of(operation.path.strip("/").replace("/", "."))
    yield steps
    if operation.op == "remove" and len(steps) > _OF_SPEC:
        yield steps[:-1]


def is_object(raw: msgspec.Raw) -> bool:
    """Whether raw JSON is an object: neither absent nor a JSON Patch."""
    return bytes(memoryview(raw)[:1]) == b"{"


def decode_object(raw: msgspec.Raw) -> Any:
    """Return the decoded object of an event; None where its level shows none."""
    return None if raw == NO_OBJECT else msgspec.json.decode(raw)


_events: Final = msgspec.json.Decoder(Event)


def read_event(text: bytes) -> Event:
    """Decode one event, at any stage.

    Raises msgspec.MsgspecError, UnicodeDecodeError and RecursionError.
    """
    _check_values(text)
    event = _events.decode(text)
    if not 0 <= event.time < _END_OF_TIME:
        raise msgspec.ValidationError("no time between 1970 and 9999 - at `$.stageTimestamp`")
    return event


def _check_values(text: bytes) -> None:
    if len(text) > MOST_VALUES and count_values(text) > MOST_VALUES:
        raise msgspec.ValidationError(f"more than {MOST_VALUES:,} values")


class PatchOperation(msgspec.Struct, frozen=True):
    """One operation of a JSON Patch. Its value is compared and never shown."""

    op: str
    path: _Name
    value: Any = msgspec.UNSET
    source: _Name = msgspec.field(default="", name="from")


class Call(NamedTuple):
    """One call of a mutating webhook; `position` is its index among all webhooks.

    `operations` is None if the audit level shows no patch.
    """

    round: int
    position: int
    configuration: str
    webhook: str
    mutated: bool
    operations: tuple[PatchOperation, ...] | None

    @property
    def name(self) -> str:
        """The webhook's name in findings: configuration/webhook."""
        return intern(f"{self.configuration}/{self.webhook}")

    @property
    def is_own(self) -> bool:
        """Whether it is genguard's own webhook, which is never a suspect."""
        return self.webhook.endswith(_OWN_WEBHOOKS)


class _Told(msgspec.Struct):
    """What an annotation tells of a call; that of a patch names the webhook again."""

    configuration: _Name = ""
    webhook: _Name = ""
    mutated: bool = False
    patch: tuple[PatchOperation, ...] | None = None


_annotations: Final = msgspec.json.Decoder(_Told)


def read_calls(annotations: Mapping[str, str]) -> tuple[Call, ...]:
    """Return all webhook calls of an event, in call order.

    Raises msgspec.MsgspecError and RecursionError for annotations that no API server writes.
    """
    calls = []
    for key, value in annotations.items():
        match = _MUTATION.fullmatch(key)
        if match is None:
            continue
        found, operations = _annotations.decode(value), None
        if (patch := annotations.get(_PATCH + match[1])) is not None:
            _check_values(patch.encode())  # in the event, escapes may have hidden them
            operations = _annotations.decode(patch).patch or ()
        at = int(match[2]), int(match[3])
        calls.append(Call(*at, found.configuration, found.webhook, found.mutated, operations))
    return tuple(sorted(calls, key=lambda call: call[:2]))


def failed_open(annotations: Mapping[str, str]) -> list[str]:
    """Return the webhooks that could not be called and have failurePolicy Ignore."""
    return [
        value[:_LONGEST_NAME] for key, value in annotations.items() if key.startswith(_FAILED_OPEN)
    ]


API_VERSION: Final = "audit.k8s.io/v1"
EVENT: Final = "Event"
KINDS: Final = frozenset({EVENT, "EventList"})
MOST_ITEMS: Final = 100_000
"""Of one list. An API server puts 400 into one, unless a flag of it says otherwise."""
UNFINISHED: Final = "not finished"
"""The reason for the last line of a log that the API server still writes."""
TOO_DEEP: Final = "nested too deep"
FAULT: Final = "genguard cannot examine it"
"""Begins the reason where it is no fault of the document."""

_BEGIN: Final = re.compile(
    rb'\s*\{\s*"kind"\s*:\s*"(Event|EventList)"\s*,\s*"apiVersion"\s*:\s*"audit\.k8s\.io/v1"'
)
"""As the API server writes it: known also where the rest is cut or cannot be decoded."""
# A string that never ends matches too: to look for its end from each quote in it is quadratic.
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?+|[{}\[\],]', re.DOTALL)
_ITEMS: Final = re.compile(rb'"items"\s*:\s*\[')
_OPENING: Final = b"[{"
_CLOSING: Final = b"]}"
_QUOTED_VALUE: Final = re.compile(r"Invalid enum value .*?(?=( - at `[^`]*`)?\Z)", re.DOTALL)


class _Head(msgspec.Struct, rename="camel"):
    # No other type is decoded: a decoded list takes 25 times as much memory as its text.
    kind: str = ""
    api_version: str = ""


_heads: Final = msgspec.json.Decoder(_Head)


def audit_kind(document: bytes) -> str:
    """Return Event or EventList, and "" for a document that is not of an audit log.

    Raises msgspec.MsgspecError, UnicodeDecodeError and RecursionError for a document that cannot
    be read and does not begin as the API server's do.
    """
    if found := _BEGIN.match(document):
        return found[1].decode()
    head = _heads.decode(document)
    return head.kind if head.api_version == API_VERSION and head.kind in KINDS else ""


def see_events(document: bytes, kind: str, see: Callable[[bytes], None]) -> Iterator[str]:
    """Give the text of each event of a document to `see`; yield why an event was left out.

    Raises msgspec.ValidationError for a list that is none.
    """
    texts = iter((document,)) if kind == EVENT else _items(document)
    for number, text in enumerate(texts, start=1):
        if number > MOST_ITEMS:
            raise msgspec.ValidationError(f"more than {MOST_ITEMS:,} events - at `$.items`")
        try:
            see(text)
        except Exception as error:  # noqa: BLE001 - one bad event must not end the others
            if is_unfinished(document, error):
                yield UNFINISHED
            else:
                item = "" if kind == EVENT else f"item {number}: "
                yield f"{item}{why_unreadable(error)}"


def is_unfinished(line: bytes, error: Exception) -> bool:
    """Whether a line has no end, because it is the last of a file that is still written."""
    is_cut = isinstance(error, msgspec.DecodeError) and "truncated" in str(error)
    return is_cut and not line.endswith(b"\n")


def why_unreadable(error: Exception) -> str:
    """Say why a document or an event is left out; nothing of its content is repeated."""
    if isinstance(error, RecursionError):
        return TOO_DEEP
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8"
    if isinstance(error, msgspec.MsgspecError):
        return _QUOTED_VALUE.sub("unknown value", str(error))
    frame = extract_tb(error.__traceback__)[-1]
    where = f"{type(error).__name__} in {frame.name}, line {frame.lineno}"
    return f"{FAULT}, please report it: {where}"


def _items(document: bytes) -> Iterator[bytes]:
    """Yield each item of a list; the last is cut where the list is."""
    found = _ITEMS.search(document)
    if found is None:
        raise msgspec.ValidationError("Expected `array` - at `$.items`")
    depth, begin = 0, found.end()
    for match in _TOKEN.finditer(document, begin):
        mark = document[match.start() : match.start() + 1]
        if mark in _OPENING:
            depth += 1
        elif depth and mark in _CLOSING:
            depth -= 1
        elif not depth and mark != b'"':  # a comma, or the end of the list
            text, begin = document[begin : match.start()], match.end()
            if mark == b"," or text.strip():
                yield text
            if mark != b",":
                return
    yield document[begin:]
