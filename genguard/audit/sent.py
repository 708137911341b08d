"""Turn an audited update into a Write as far as the request alone shows it.

For level Request, and for objects of which the last stored state is not known: what was asked for,
what the patches of webhooks made of it, and who it was.
"""

from collections.abc import Callable, Iterable, Sequence
from sys import intern
from typing import Final

import msgspec
from msgspec import structs

from genguard.audit.event import Call, Event, ObjectReference, Operation
from genguard.audit.stored import MOST_OBJECTS, name_of, object_fields, object_key
from genguard.detection.changes import Change, digest, salt
from genguard.detection.diff import NO_DIFF, Diff, diff_of
from genguard.detection.digest import Digest, as_digest, digest_of
from genguard.detection.life_fact import blank_write
from genguard.detection.write import Called, Requester, Write
from genguard.objects.bounded import Bounded
from genguard.objects.fields import NOT_CONTENT, Fields
from genguard.objects.observed import NOTHING_OBSERVED, read_observed

_MOST_BYTES: Final = 16 * 1024 * 1024
_BYTES_OF_UID: Final = 400
StatusCounts = Callable[[str, str, str], bool]
"""Whether the status of a (group, version, resource) is written on its main endpoint."""


class _Metadata(msgspec.Struct):
    uid: str = ""


_metadata: Final = msgspec.json.Decoder(_Metadata)


class SentWrites:
    """Turns events into writes; remembers the uids of objects."""

    def __init__(self, status_counts: StatusCounts) -> None:
        self._status_counts: Final = status_counts
        self._uids: Final[Bounded[tuple[str, ...], str]] = Bounded(MOST_OBJECTS, _MOST_BYTES)

    def write(self, event: Event, reference: ObjectReference, others: Sequence[Call]) -> Write:
        """Return the write of an update; `others` are the calls of other webhooks that changed it.

        Raises msgspec.MsgspecError and RecursionError for objects that cannot be decoded.
        """
        sent = object_fields(event.request_object)
        on_main = self._status_counts(
            reference.api_group, reference.api_version, reference.resource
        )
        keys = _keys(reference.subresource, sent, status_counts=on_main)
        made = _changed(others, keys)
        # Without the stored object a repeated status may equal the stored one.
        asked = None if made else NO_DIFF
        webhooks = tuple(dict.fromkeys(call.name for call in others))
        observed = read_observed(sent.get("status")) or NOTHING_OBSERVED
        write = blank_write(
            object_key(reference, uid=self._uid(event, reference)),
            Requester(event.username, event.manager),
            event.time,
            called=Called(webhooks, webhooks),
        )
        return structs.replace(
            write,
            subresource=intern(reference.subresource),
            writes_status="status" in keys,
            status_counts=on_main,
            requested_diff=asked,
            webhook_diff=made,
            content_hash=_digest(sent, keys),
            touches_status=any(one.key[0] == "status" for one in made),
            observes=observed.anything,
            has_outcome=False,
            observed_asked=observed,
            observed_sent=observed,
        )

    def _uid(self, event: Event, reference: ObjectReference) -> str:
        """Return the uid from this or an earlier event: patches below the level have none."""
        name = name_of(reference)
        answer = object_fields(event.response_object)
        shown = _metadata.decode(answer["metadata"]).uid if "metadata" in answer else ""
        uid = shown or reference.uid or self._uids.get(name) or ""
        if uid:
            self._uids.put(name, uid, _BYTES_OF_UID + sum(map(len, (*name, uid))))
        return uid


def _changed(others: Iterable[Call], keys: Sequence[str]) -> Diff:
    """Return the changes that the patches of webhooks make in the compared fields."""
    return diff_of(
        tuple(
            Change(one.place, one.path, digest_of(b""), _value(one), salt(one.place))
            for call in others
            for one in call.operations or ()
            if one.op != "test" and one.place and one.place[0] in keys
        )
    )


def _value(one: Operation) -> Digest | None:
    return None if one.value is msgspec.UNSET else digest_of(msgspec.json.encode(one.value))


def _keys(subresource: str, sent: Fields, *, status_counts: bool) -> tuple[str, ...]:
    """Return the top-level fields that the API server uses from this write."""
    if subresource == "status":
        return ("status",)
    keys = sent.keys() - NOT_CONTENT
    return tuple(sorted(keys if status_counts else keys - {"status"}))


def _digest(fields: Fields, keys: Sequence[str]) -> Digest:
    return as_digest(hash(tuple(digest(fields.get(key)) for key in keys)))
