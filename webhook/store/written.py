"""How a write stands in a shared store: its key, its intent, and what it was told.

A key is a digest of what joins the phases of a write, so neither names nor contents are in it. A
value is the little that restore_intent needs; see webhook/objects/intended.py.
"""

from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

from webhook.admission.join import JoinKey
from webhook.objects.intended import Intended

CANCELLED: Final = b""
"""Stands for two intents that differ: neither can be told from the other."""
_DIGEST_BYTES: Final = 16
_intent_decoder: Final = msgspec.msgpack.Decoder(Intended)
_told_decoder: Final = msgspec.msgpack.Decoder(dict[str, str])


class Known(NamedTuple):
    """What a store knows of a write; None where it knows nothing.

    found     whether an intent is there, be it a cancelled one
    intended  None for a cancelled one too
    """

    found: bool
    intended: Intended | None
    told: Mapping[str, str] | None


# The phases of one write, and the questions about each of them, follow one another closely.
@lru_cache(maxsize=64)
def digest(key: JoinKey) -> bytes:
    """32 hexadecimal digits, equal for equal keys."""
    content = msgspec.msgpack.encode(key)
    return blake2b(content, digest_size=_DIGEST_BYTES).hexdigest().encode()


def pack_intent(intended: Intended) -> bytes:
    """Equal bytes for equal intents, and never CANCELLED."""
    return msgspec.msgpack.encode(intended)


def pack_told(annotations: Mapping[str, str]) -> bytes:
    """What a write was told, in the order it was told."""
    return msgspec.msgpack.encode(dict(annotations))


def unpack(intent: bytes | None, told: bytes | None) -> Known:
    """Raises msgspec.MsgspecError for what another program wrote."""
    return Known(
        intent is not None,
        _intent_decoder.decode(intent) if intent else None,
        _told_decoder.decode(told) if told is not None else None,
    )
