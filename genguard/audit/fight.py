"""Find values that a user sends again and again, and that a webhook replaces each time.

For logs without stored objects (level Request). Only explicit values count: it is no fight if a
webhook sets a default for an absent field.
"""

import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from genguard.audit.event import Call, Event
from genguard.audit.signs import describe, value_at
from genguard.detection.detectors import Blame, Signal
from genguard.detection.write import Write
from genguard.objects.bounded import Bounded

MOST_FIELDS: Final = 20_000
_MOST_BYTES: Final = 16 * 1024 * 1024
_BYTES_OF_FIELD: Final = 500
_NOT_SPEC: Final = frozenset({"metadata", "status", "kind", "apiVersion"})
_REPLACING: Final = frozenset({"replace", "remove"})


class Fights:
    """Remembers the requested value of each field that a webhook replaced; bounded."""

    def __init__(self) -> None:
        self._asked: Final[Bounded[tuple[str, ...], int]] = Bounded(MOST_FIELDS, _MOST_BYTES)

    def signs(self, event: Event, write: Write, others: Sequence[Call]) -> Iterator[Signal]:
        """One sign for a write that asked once more for what it does not get."""
        if write.subresource or not any(call.operations for call in others):
            return
        sent = msgspec.json.decode(event.request_object)
        again = [
            pointer
            for call in others
            for pointer, value in _replaced(call, sent)
            if self._asks_again(write, pointer, value)
        ]
        if again:
            yield Signal(
                Blame.OTHERS,
                tuple(dict.fromkeys(again)),
                f"another webhook replaced {len(again)} field(s) that {write.requester.user} "
                "has asked for before",
                evidence={"calls": [describe(call) for call in others]},
            )

    def _asks_again(self, write: Write, pointer: str, value: Any) -> bool:
        where = write.object
        named = (where.group, where.resource, where.namespace, where.name, write.requester.user)
        key, asked = (*named, pointer), zlib.crc32(msgspec.json.encode(value))
        before = self._asked.get(key)
        self._asked.put(key, asked, _BYTES_OF_FIELD + sum(map(len, key)))
        return before == asked


def _replaced(call: Call, sent: Any) -> Iterator[tuple[str, Any]]:
    """Yield the explicit values that a patch replaces, without metadata and status."""
    for one in call.operations or ():
        path = one.place if one.op in _REPLACING else ()
        if path and path[0] not in _NOT_SPEC:
            value = value_at(sent, path)
            if value is not None:
                yield one.path, value
