"""Digests: they say whether two values are equal, and nothing else about the values."""

import zlib
from typing import TYPE_CHECKING, Final, cast, final

import msgspec

if TYPE_CHECKING:

    @final
    class Digest:
        """Equal for equal values. mypy refuses to compare it with a value of an object.

        Without that, a detector that waits for `change.after == 0` would never find anything.
        """
else:
    Digest = int  # as it is encoded, and remembered with each leaf


def as_digest(number: int) -> Digest:
    """Return a number that is made of digests as a digest."""
    return cast("Digest", number)


def as_number(digest: Digest) -> int:
    """Return a digest as the number that it is."""
    return cast("int", digest)


NO_DIGEST: Final = as_digest(0)
"""Of nothing at all."""


def digest_of(raw: bytes | msgspec.Raw) -> Digest:
    """Return the digest of raw bytes, 32 bits."""
    return as_digest(zlib.crc32(raw))


def added(one: Digest, other: Digest) -> Digest:
    """Return the digest of both parts of an object; their order does not matter."""
    return as_digest(as_number(one) + as_number(other))
