"""Turn an audited update into a Write for the detectors, as far as its audit level allows.

At RequestResponse the last stored object is remembered, bounded in objects and bytes, so that the
request and its result can be compared. Below that level only the sent object is
known, and `admitted_diff` is empty.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from sys import intern
from typing import Final, NamedTuple

import msgspec

from webhook.audit.event import Call, Event, ObjectReference
from webhook.audit.others import changed_by_others
from webhook.detection.changes import changes, digest
from webhook.detection.diff import NO_DIFF, Diff, diff_of
from webhook.detection.write import Called, ObjectKey, Requester, Write
from webhook.objects.fields import NOT_CONTENT, Fields
from webhook.objects.observed import NOTHING_OBSERVED, Observed, read_observed
from webhook.objects.owners import read_owner_uid

MOST_OBJECTS: Final = 20_000
MOST_BYTES: Final = 6 * 1024 * 1024
"""The bytes of stored objects, without the overhead of Python for each."""
_LARGEST: Final = 256 * 1024

StatusCounts = Callable[[str, str, str], bool]
"""Whether the status of a (group, version, resource) is written on its main endpoint."""


class _Metadata(msgspec.Struct, rename="camel"):
    generation: int = 0
    resource_version: str = ""
    uid: str = ""
    owner_references: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _Stored(NamedTuple):
    metadata: _Metadata
    fields: Fields
    size: int


_metadata: Final = msgspec.json.Decoder(_Metadata)
_fields: Final = msgspec.json.Decoder(Fields)


class Memory:
    """Turns events into writes; remembers the last stored objects."""

    def __init__(self, status_counts: StatusCounts) -> None:
        self._status_counts: Final = status_counts
        self._stored: OrderedDict[tuple[str, ...], _Stored] = OrderedDict()
        self._uids: OrderedDict[tuple[str, ...], str] = OrderedDict()
        self._bytes = 0

    def write(self, event: Event, reference: ObjectReference, others: Sequence[Call]) -> Write:
        """Return the write of an update; `others` are the calls of other webhooks that changed it.

        Raises msgspec.MsgspecError and RecursionError for objects that cannot be decoded.
        """
        name = _name(reference)
        before = self._stored.get(name)
        after = _read(event.response_object)
        if before and after and before.metadata.uid != after.metadata.uid:
            before = None  # another object with this name
        sent = object_fields(event.request_object)
        on_main = self._status_counts(
            reference.api_group, reference.api_version, reference.resource
        )
        keys = _keys(reference.subresource, sent, after, status_counts=on_main)
        old = before.fields if before else {}
        new = after.fields if after else {}
        whole = event.verb == "update"
        known = before is not None and after is not None
        made = changed_by_others(others, sent, new if whole else {}, keys)
        asked = _asked(before, after, sent, keys, whole=whole, made=made)
        admitted = _difference(old, new, keys) if known else NO_DIFF
        sent_diff = admitted if asked is None else asked
        where = _key(reference, self._uid(name, reference, after or before))
        webhooks = tuple(dict.fromkeys(call.name for call in others))
        asked_to_observe, observed = _observed(sent), _observed(new)
        write = Write(
            time=event.time,
            object=where,
            subresource=intern(reference.subresource),
            requester=Requester(event.username, event.manager),
            base=before.metadata.resource_version if before else "",
            writes_status="status" in keys,
            status_counts=on_main,
            requested_diff=asked,
            webhook_diff=made,
            reinvocation_diff=NO_DIFF,
            admitted_diff=admitted,
            content_hash=None if asked is not None and not asked else _digest(sent, keys),
            touches_status=any(one.key[0] == "status" for one in (*sent_diff, *made)),
            touches_more=any(one.key[0] != "status" for one in admitted),
            observes=asked_to_observe.anything or observed.anything,
            state_before=_digest(old, keys),
            state_after=_digest(new, keys),
            has_outcome=known,
            generation_before=before.metadata.generation if before else 0,
            # An unknown generation counts as no change.
            generation_after=after.metadata.generation if before and after else 0,
            generation_predicted=None,
            observed_before=_observed(old),
            observed_asked=asked_to_observe,
            observed_sent=asked_to_observe,
            observed_after=observed,
            called=Called(webhooks, webhooks),
            owner=read_owner_uid(after.metadata.owner_references) if after else "",
        )
        self._remember(name, after)
        return write

    def forget(self, reference: ObjectReference) -> None:
        """Forget an object, since it was written by an event that is not followed."""
        self._remember(_name(reference), None)

    def _uid(self, name: tuple[str, ...], reference: ObjectReference, known: _Stored | None) -> str:
        """Return the uid from this or an earlier event: patches below the level have none."""
        before = self._uids.pop(name, "")
        uid = (known.metadata.uid if known else "") or reference.uid or before
        if uid:
            self._uids[name] = uid
            if len(self._uids) > MOST_OBJECTS:
                self._uids.popitem(last=False)
        return uid

    def _remember(self, name: tuple[str, ...], stored: _Stored | None) -> None:
        before = self._stored.pop(name, None)
        self._bytes -= before.size if before else 0
        if stored is None or stored.size > _LARGEST:
            return
        kept = {key: raw.copy() for key, raw in stored.fields.items() if key not in NOT_CONTENT}
        # Raw bytes would keep the whole document in memory.
        metadata = msgspec.structs.replace(stored.metadata, owner_references=msgspec.UNSET)
        self._stored[name] = stored._replace(metadata=metadata, fields=kept)
        self._bytes += stored.size
        while len(self._stored) > MOST_OBJECTS or self._bytes > MOST_BYTES:
            _, oldest = self._stored.popitem(last=False)
            self._bytes -= oldest.size


def object_fields(raw: msgspec.Raw) -> Fields:
    """Return the top-level fields of a raw object; none if it is absent or a JSON Patch."""
    return _fields.decode(raw) if bytes(memoryview(raw)[:1]) == b"{" else {}


def _read(raw: msgspec.Raw) -> _Stored | None:
    fields = object_fields(raw)
    if "metadata" not in fields or fields.get("kind") == b'"Status"':
        return None
    size = sum(len(bytes(one)) for key, one in fields.items() if key not in NOT_CONTENT)
    return _Stored(_metadata.decode(fields["metadata"]), fields, size)


def _name(reference: ObjectReference) -> tuple[str, ...]:
    return reference.api_group, reference.resource, reference.namespace, reference.name


def _key(reference: ObjectReference, uid: str) -> ObjectKey:
    return ObjectKey(
        intern(reference.api_group),
        intern(reference.api_version),
        intern(reference.resource),
        intern(reference.namespace),
        reference.name,
        uid,
    )


def _keys(
    subresource: str, sent: Fields, after: _Stored | None, *, status_counts: bool
) -> tuple[str, ...]:
    """Return the top-level fields that the API server uses from this write."""
    if subresource == "status":
        return ("status",)
    keys = (sent.keys() | (after.fields.keys() if after else ())) - NOT_CONTENT
    return tuple(sorted(keys if status_counts else keys - {"status"}))


def _asked(
    before: _Stored | None,
    after: _Stored | None,
    sent: Fields,
    keys: Sequence[str],
    *,
    whole: bool,
    made: Diff,
) -> Diff | None:
    """Return what the requester changed; for a patch it is known only if nothing changed."""
    if before is not None and after is not None:
        if whole:
            return _difference(before.fields, sent, keys)
        same = before.metadata.resource_version == after.metadata.resource_version
        if (same and not made) or (sent and not sent.keys() & set(keys)):
            return NO_DIFF
        return None
    # Without the stored object, a repeated status may equal the stored one.
    return None if made else NO_DIFF


def _difference(before: Fields, after: Fields, keys: Sequence[str]) -> Diff:
    return diff_of(changes(before, after, keys))


def _observed(fields: Fields) -> Observed:
    return read_observed(fields.get("status")) or NOTHING_OBSERVED


def _digest(fields: Fields, keys: Sequence[str]) -> int:
    return hash(tuple(digest(fields.get(key)) for key in keys))
