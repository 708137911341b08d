"""How a write stands in a shared store: its key, its intent, and what it was told.

A key is a digest of what joins the phases of a write, so neither names nor contents are in it. A
value is the little that restore_intent needs (webhook/objects/intended.py), sealed (seal.py).
"""

from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Final

import msgspec

from webhook.admission.join import JoinKey
from webhook.objects.intended import Intended

CANCELLED: Final = b""
"""Stands for two intents that differ: neither can be told from the other."""
_DIGEST_BYTES: Final = 16
_intent_decoder: Final = msgspec.msgpack.Decoder(Intended)
_told_decoder: Final = msgspec.msgpack.Decoder(dict[str, str])


# The phases of one write, and the questions about each of them, follow one another closely.
@lru_cache(maxsize=64)
def digest(key: JoinKey, secret: bytes) -> bytes:
    """32 hexadecimal digits, equal for equal keys; not to be guessed without the secret."""
    content = msgspec.msgpack.encode(key)
    return blake2b(content, digest_size=_DIGEST_BYTES, key=secret).hexdigest().encode()


def pack_intent(intended: Intended) -> bytes:
    """Equal bytes for equal intents, and never CANCELLED."""
    return msgspec.msgpack.encode(intended)


def pack_told(annotations: Mapping[str, str]) -> bytes:
    """What a write was told, in the order it was told."""
    return msgspec.msgpack.encode(dict(annotations))


def unpack_intent(content: bytes) -> Intended:
    """Raises msgspec.MsgspecError or UnicodeDecodeError for what another program wrote."""
    return _intent_decoder.decode(content)


def unpack_told(content: bytes) -> Mapping[str, str]:
    """Raises as unpack_intent does."""
    return _told_decoder.decode(content)
