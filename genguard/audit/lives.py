"""Find objects created and deleted by turns, and writes that are refused again and again.

The code of the answer tells what came out, so a refusal needs no proof. Evictions are seen, too:
they delete a Pod (pkg/registry/core/pod/storage/eviction.go), and no webhook is asked about that.
Generated names, owners and labels are in the stored object, from level RequestResponse on; at level
Request an object is known by its name. At level Metadata nobody can tell what was done already, so
only refusals are found.

Not meant are conflicts (409), objects that are gone (404), what comes at a bad time (429, 5xx), a
namespace that is deleted, and requests that authorization refuses: these never reach admission. A
webhook that does not answer is meant, though its code is 500.
"""

import zlib
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Final

import msgspec

from genguard.admission.join import JoinKey
from genguard.admission.review import Phase
from genguard.audit.event import (
    NO_OBJECT,
    Call,
    Event,
    ObjectReference,
    ResponseStatus,
    is_object,
)
from genguard.audit.stored import object_key
from genguard.detection.detectors.detector import DetectorRunner, Signal
from genguard.detection.detectors.recreation import Recreation
from genguard.detection.detectors.refused_retry import RefusedRetry
from genguard.detection.diff import NO_DIFF
from genguard.detection.digest import NO_DIGEST, digest_of
from genguard.detection.life_fact import VERSION, LifeFact, blank_write, is_finished
from genguard.detection.lives import Lives
from genguard.detection.refusals import Attempts, Refusal, continued
from genguard.detection.write import Called, Requester, Write
from genguard.objects.bounded import Bounded
from genguard.objects.owners import Owner, controller_uid

MOST_PLACES: Final = 10_000
MOST_BYTES: Final = 4 * 1024 * 1024
_BYTES_OF_PLACE: Final = 800
_WRITES: Final = frozenset({"create", "update", "patch"})
_SUCCESS: Final = range(200, 300)
_INVALID: Final = 422
_RUNNER: Final = DetectorRunner((Recreation(), RefusedRetry()))

SeenSignal = tuple[str, Signal, Write]


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    generate_name: str = ""
    uid: str = ""
    owner_references: tuple[Owner, ...] | None = None
    labels: msgspec.Raw = NO_OBJECT


class _Object(msgspec.Struct):
    metadata: _Metadata | None = None
    status: msgspec.Raw = NO_OBJECT


_Place = tuple[str, ...]
_objects: Final = msgspec.json.Decoder(_Object)


class AuditedLives:
    """Remembers creations, and attempts that were refused. Bounded."""

    def __init__(self) -> None:
        self._lives: Final = Lives()
        self._uids: Final[Bounded[_Place, str]] = Bounded(MOST_PLACES, MOST_BYTES)
        self._attempts: Final[Bounded[_Place, Attempts]] = Bounded(MOST_PLACES, MOST_BYTES)
        self._numbers: Final = count(1)

    def see(
        self, event: Event, reference: ObjectReference, others: Sequence[Call]
    ) -> Iterator[SeenSignal]:
        """Yield (detector, signal, write) for what is wrong; `others` changed the request.

        Raises msgspec.MsgspecError and RecursionError for objects that cannot be decoded.
        """
        status = event.response_status
        if status is None or event.is_dry_run:
            return
        if status.code in _SUCCESS:
            if event.verb in _WRITES and len(self._attempts):
                self._attempts.pop(_place_of(event, reference))
            yield from self._come_and_go(event, reference)
        elif event.verb in _WRITES and event.is_refused:
            yield from self._refuse(event, status, reference, others)

    def _come_and_go(self, event: Event, reference: ObjectReference) -> Iterator[SeenSignal]:
        is_eviction = reference.subresource == "eviction"
        is_deletion = event.verb == "delete" and not reference.subresource
        if event.verb == "create" and not reference.subresource:
            self._create(event, reference)
        elif reference.subresource == "status":
            self._end(event, reference)
        elif is_deletion or is_eviction:
            uid = self._uids.get(_name(reference, reference.name))
            if uid is not None:
                turns = self._lives.delete(_fact(event, reference, _Metadata(uid=uid), gone=True))
                if turns is not None:
                    yield from _RUNNER.judge_turns(turns)

    def _create(self, event: Event, reference: ObjectReference) -> None:
        shown = _metadata(event.response_object)
        name = shown.name or reference.name
        if not name or event.request_object == NO_OBJECT:
            return
        # Below level RequestResponse an object has no uid that is told.
        shown.uid = shown.uid or f"#{next(self._numbers)}"
        place = _name(reference, name)
        self._uids.put(place, shown.uid, _BYTES_OF_PLACE + sum(map(len, place)))
        self._lives.create(_fact(event, reference, shown, gone=False))

    def _end(self, event: Event, reference: ObjectReference) -> None:
        """Forget an object whose work is done: whoever deletes it makes no turn."""
        place = _name(reference, reference.name)
        if self._uids.get(place) is not None and is_finished(_status(event)):
            self._uids.pop(place)

    def _refuse(
        self,
        event: Event,
        status: ResponseStatus,
        reference: ObjectReference,
        others: Sequence[Call],
    ) -> Iterator[SeenSignal]:
        place, asked = _place_of(event, reference), digest_of(event.request_object)
        found = continued(self._attempts.get(place), (NO_DIGEST, asked), event.time)
        found.count_one()
        self._attempts.put(place, found, _BYTES_OF_PLACE + sum(map(len, place)))
        guilty = tuple(dict.fromkeys(call.name for call in others if _is_named(call, status)))
        name = reference.name or _metadata(event.request_object).generate_name
        write = blank_write(
            object_key(reference, name=name),
            Requester(event.username, event.manager),
            event.time,
            called=Called(guilty, guilty),
            missing=(Phase.OUTCOME,),
        )
        code = f"{status.code} {status.reason}".strip()
        refusal = Refusal(
            msgspec.structs.replace(write, subresource=reference.subresource),
            attempts=found.count,
            seconds=event.time - found.first,
            asked=NO_DIFF,
            made=NO_DIFF,
            is_creation=event.verb == "create",
            answer=code,
            is_made_invalid=bool(guilty),
            tries=found.tries,
            tried_seconds=event.time - found.begun,
        )
        yield from _RUNNER.judge_refusal(refusal)


def _is_named(call: Call, status: ResponseStatus) -> bool:
    """Whether the answer says that a field is invalid which this webhook has set."""
    if status.code != _INVALID or status.details is None:
        return False
    fields = [_steps(one.field) for one in status.details.causes or ()]
    patched = [_steps(one.path.strip("/").replace("/", ".")) for one in call.operations or ()]
    return any(one and one == field[: len(one)] for one in patched for field in fields)


def _steps(field: str) -> list[str]:
    """Return the steps of `spec.containers[0].image`, and of the same as a pointer."""
    return field.replace("[", ".").replace("]", "").split(".") if field else []


def _fact(event: Event, reference: ObjectReference, shown: _Metadata, *, gone: bool) -> LifeFact:
    owners = shown.owner_references or ()
    prefix = shown.generate_name
    key = JoinKey(
        reference.api_group,
        reference.resource,
        "",
        reference.namespace,
        prefix or shown.name or reference.name,
        shown.uid,
        event.username,
        controller_uid(owners) if prefix else "",
        dry_run=False,
    )
    likeness = zlib.crc32("".join(one.uid for one in owners).encode())
    if reference.resource == "pods":
        likeness = zlib.crc32(shown.labels, likeness)
    return LifeFact(
        VERSION,
        Phase.OUTCOME,
        event.time,
        key,
        reference.api_version,
        event.manager,
        is_deletion=gone,
        is_over=False,
        likeness=likeness,
    )


def _object(raw: msgspec.Raw) -> _Object:
    """Return the metadata and status of a raw object; nothing of a JSON Patch."""
    return _objects.decode(raw) if is_object(raw) else _Object()


def _status(event: Event) -> msgspec.Raw | None:
    raw = _object(event.request_object).status
    return None if raw == NO_OBJECT else raw


def _metadata(raw: msgspec.Raw) -> _Metadata:
    """Return the metadata of a raw object; empty for what has none."""
    return _object(raw).metadata or _Metadata()


def _name(reference: ObjectReference, name: str) -> _Place:
    return reference.api_group, reference.resource, reference.namespace, name


def _place_of(event: Event, reference: ObjectReference) -> _Place:
    name = reference.name or _metadata(event.request_object).generate_name
    return (*_name(reference, name), reference.subresource, event.username)
