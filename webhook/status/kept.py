"""Tracked objects as rows that outlive the process."""

import struct
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from webhook.status.remembered import pack, unpack
from webhook.status.tally import Kind
from webhook.status.tracking import Tracking

_decoder: Final = msgspec.msgpack.Decoder(tuple[Kind, bytes])


class KeptObjects:
    """A Tracking, row by row: by uid, with the kind's names, for positions are a process's own."""

    def __init__(self, tracking: Tracking) -> None:
        self._tracking: Final = tracking

    def marks(self) -> Iterator[tuple[str, Any]]:
        """Each object by uid, and what differs once it has changed."""
        return self._tracking.packed()

    def export(self, name: str) -> bytes | None:
        """What is to be known of an object after a restart; None where that is nothing."""
        state = self._tracking.lasting(name)
        if state is None:
            return None
        return msgspec.msgpack.encode((self._tracking.tally.kind(state.kind), pack(state)))

    def restore(self, rows: Iterable[tuple[str, bytes]]) -> None:
        """Take over what was exported. Raises msgspec.MsgspecError or ValueError."""
        for uid, content in rows:
            kind, data = _decoder.decode(content)
            try:
                state = unpack(data)
            except (IndexError, struct.error) as error:
                raise ValueError("an object's state is cut off") from error
            self._tracking.restore(uid, kind, state)
