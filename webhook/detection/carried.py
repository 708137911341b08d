"""Open findings as one block of bytes, for the pod that comes next."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
from zstandard import ZstdCompressor, ZstdDecompressor, ZstdError, get_frame_parameters

from webhook.detection.ledger import Row

MOST_BYTES_OF_BLOCK: Final = 384 * 1024
"""Of a block: 512 KiB as base64, half of what a ConfigMap takes."""
_MOST_UNPACKED: Final = 16 * 1024 * 1024
_MARGIN: Final = 0.9
"""Of the rows that seem to fit: they do not all compress alike."""


class UnreadableFindingsError(ValueError):
    """A block that is damaged, too large or of another version."""


class Block(NamedTuple):
    """Packed rows, and how many had no room."""

    data: bytes
    left_out: int


class _Rows(msgspec.Struct, frozen=True, array_like=True, tag="findings1"):
    rows: tuple[Row, ...]


_block_decoder: Final = msgspec.msgpack.Decoder(_Rows)


def pack(rows: Sequence[Row]) -> Block:
    """As many rows as have room, from the first one on."""
    kept = _within(rows)
    while True:
        data = ZstdCompressor().compress(msgspec.msgpack.encode(_Rows(tuple(kept))))
        if len(data) <= MOST_BYTES_OF_BLOCK:
            return Block(data, len(rows) - len(kept))
        kept = kept[: int(len(kept) * _MARGIN * MOST_BYTES_OF_BLOCK / len(data))]


def unpack(data: bytes) -> tuple[Row, ...]:
    """The rows of a block; raises UnreadableFindingsError."""
    try:
        if get_frame_parameters(data).content_size > _MOST_UNPACKED:
            raise UnreadableFindingsError("larger than any that is written")
        unpacked = ZstdDecompressor().decompress(data, max_output_size=_MOST_UNPACKED)
        return _block_decoder.decode(unpacked).rows
    except (ZstdError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UnreadableFindingsError("damaged, or of another version") from error


def _within(rows: Sequence[Row]) -> Sequence[Row]:
    """The first rows, up to a size that `unpack` takes."""
    size = 0
    for number, (name, content) in enumerate(rows):
        size += len(name.encode()) + len(content) + 16
        if size > _MOST_UNPACKED // 2:
            return rows[:number]
    return rows
