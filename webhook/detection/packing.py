"""The writes of an object that rests, as few bytes; unpacked as they were when it is written again.

Objects of one resource are written by the same users at the same leaves, with many values alike.
So what rests is compressed against examples: the first objects that rested of its resource, and
those after them that had something new, up to a size. A pod with the status writes of its start
then takes a quarter of what it takes alone.
"""

from functools import lru_cache
from struct import Struct
from typing import Any, Final, NamedTuple, Self

import msgspec
from zstandard import (
    DICT_TYPE_RAWCONTENT,
    ZstdCompressionDict,
    ZstdCompressor,
    ZstdDecompressor,
)

from webhook.detection.difference import NO_DIFFERENCE, Difference, Reader
from webhook.detection.write import NOBODY, ObjectKey, Requester, Write

MOST_EXAMPLES: Final = 64 * 1024
"""Bytes of a resource. Of pods half as many have everything that comes again."""
MOST_RESOURCES: Final = 128
_NEWS: Final = 12
"""What does not shrink to a part of this size has something that the examples do not have."""
_LEVEL: Final = 6
"""A sixth less than by 3, for 10 µs more; those above take longer for nothing."""
_MOST_PREPARED: Final = 16
"""Resources whose examples are ready for use, in some 0.5 MB each. To prepare takes 0.2 ms."""

_HEAD: Final = Struct("<dI")
_NOWHERE: Final = ObjectKey("", "", "", "", "", "")

Resource = tuple[str, str]
"""Group and resource."""


class Remembered(msgspec.Struct, frozen=True, array_like=True):
    """What an ObjectHistory consists of: the lists share their writes."""

    writes: list[Write]
    stored: list[Write]
    candidates: list[Write]


class Packed(NamedTuple):
    """A head and what was compressed, as `Packer.pack` joins them to one.

    seen      when the latest write was
    examples  how many bytes of examples there were when `data` was compressed
    """

    seen: float
    examples: int
    data: bytes

    def joined(self) -> bytes:
        """Bytes and no class of them: there are 100,000, and the collector looks at instances."""
        return _HEAD.pack(self.seen, self.examples) + self.data

    @classmethod
    def of(cls, joined: bytes) -> Self:
        """What was joined."""
        seen, examples = _HEAD.unpack_from(joined)
        return cls(seen, examples, joined[_HEAD.size :])


def seen_of(joined: bytes) -> float:
    """As `Packed.of`, without the rest."""
    seen, _ = _HEAD.unpack_from(joined)
    return float(seen)


class _Wire(msgspec.Struct, array_like=True):
    """Each write once, without its object; one that came as it was asked for, its changes once."""

    every: list[Write]
    as_asked: list[int]
    writes: list[int]
    stored: list[int]
    candidates: list[int]


def _packed(value: Any) -> bytes:
    if not isinstance(value, Difference):
        raise NotImplementedError
    return value.packed()


_encoder: Final = msgspec.msgpack.Encoder(enc_hook=_packed)


class Packer:
    """Packs and unpacks. The examples are only ever added to: what was packed keeps its own."""

    def __init__(self, reader: Reader) -> None:
        """`reader` reads what was unpacked, when somebody asks for it."""
        self._examples: Final[dict[Resource, bytes]] = {}

        def unpacked(wanted: type, value: bytes) -> Difference:
            del wanted  # nothing else is packed so
            return Difference.unread(value, len(value), reader) if value else NO_DIFFERENCE

        self._decoder: Final = msgspec.msgpack.Decoder(_Wire, dec_hook=unpacked)

    def pack(self, resource: Resource, remembered: Remembered) -> bytes:
        """A joined `Packed`; learn from what is new."""
        examples = self._examples.get(resource, b"")
        raw = _encoder.encode(_wire(remembered))
        data = _compressor(examples).compress(raw)
        if len(data) > len(raw) // _NEWS and (examples or len(self._examples) < MOST_RESOURCES):
            self._examples[resource] = examples + raw[: MOST_EXAMPLES - len(examples)]
        seen = remembered.writes[-1].time if remembered.writes else 0.0
        return Packed(seen, len(examples), data).joined()

    def unpack(self, where: ObjectKey, joined: bytes) -> Remembered:
        """What was packed of this object, equal to the last."""
        packed = Packed.of(joined)
        examples = self._examples.get((where.group, where.resource), b"")[: packed.examples]
        raw = _decompressor(examples).decompress(packed.data)
        return _remembered(where, self._decoder.decode(raw))


@lru_cache(_MOST_PREPARED)
def _compressor(examples: bytes) -> ZstdCompressor:
    prepared = _dictionary(examples)
    prepared.precompute_compress(_LEVEL)
    return ZstdCompressor(_LEVEL, dict_data=prepared, write_dict_id=False)


@lru_cache(_MOST_PREPARED)
def _decompressor(examples: bytes) -> ZstdDecompressor:
    return ZstdDecompressor(dict_data=_dictionary(examples))


def _dictionary(examples: bytes) -> ZstdCompressionDict:
    return ZstdCompressionDict(examples, dict_type=DICT_TYPE_RAWCONTENT)


def _wire(remembered: Remembered) -> _Wire:
    lists = remembered.writes, remembered.stored, remembered.candidates
    every = list({id(one): one for some in lists for one in some}.values())
    position = {id(one): index for index, one in enumerate(every)}
    as_asked = [index for index, one in enumerate(every) if one.asked is one.result]
    bare = [msgspec.structs.replace(one, object=_NOWHERE) for one in every]
    for index in as_asked:
        bare[index] = msgspec.structs.replace(bare[index], asked=None)
    return _Wire(bare, as_asked, *([position[id(one)] for one in some] for some in lists))


def _remembered(where: ObjectKey, wire: _Wire) -> Remembered:
    as_asked = set(wire.as_asked)
    first = wire.every[0].requester if wire.every else None
    every = [
        _whole(one, where, first, is_as_asked=index in as_asked)
        for index, one in enumerate(wire.every)
    ]
    lists = wire.writes, wire.stored, wire.candidates
    return Remembered(*([every[index] for index in some] for some in lists))


def _whole(one: Write, where: ObjectKey, first: Requester | None, *, is_as_asked: bool) -> Write:
    """As it was: equal values are one again, apart they take twice the memory."""
    asked, sent, after = one.observed_asked, one.observed_sent, one.observed_after
    return msgspec.structs.replace(
        one,
        object=where,
        requester=first if first == one.requester else one.requester,
        called=NOBODY,
        asked=one.result if is_as_asked else one.asked,
        observed_asked=after if asked == after else asked,
        observed_sent=after if sent == after else sent,
    )
