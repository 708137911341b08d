"""The writes of an object that rests, as few bytes; unpacked when it is written again.

The lists share their writes, and keep sharing them: each is packed once, the lists as positions.
"""

import zlib
from typing import Final

import msgspec

from webhook.detection.write import Write

_LEVEL: Final = 1


class Remembered(msgspec.Struct, array_like=True):
    """What an ObjectHistory consists of."""

    writes: list[Write]
    stored: list[Write]
    candidates: list[Write]


class _Packed(msgspec.Struct, array_like=True):
    every: list[Write]
    writes: list[int]
    stored: list[int]
    candidates: list[int]


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(_Packed)


def pack(remembered: Remembered, most: int) -> bytes:
    """The latest of each list, at most so many."""
    lists = remembered.writes[-most:], remembered.stored[-most:], remembered.candidates[-most:]
    every = {id(one): one for some in lists for one in some}
    position = {identity: index for index, identity in enumerate(every)}
    writes, stored, candidates = ([position[id(one)] for one in some] for some in lists)
    packed = _Packed(list(every.values()), writes, stored, candidates)
    return zlib.compress(_encoder.encode(packed), _LEVEL)


def unpack(data: bytes) -> Remembered:
    """What was packed."""
    packed = _decoder.decode(zlib.decompress(data))
    every = packed.every
    return Remembered(
        [every[index] for index in packed.writes],
        [every[index] for index in packed.stored],
        [every[index] for index in packed.candidates],
    )
