"""What is kept of one object between its writes, and how it is packed into some 150 bytes.

100,000 of them are kept in memory, so that a Python object each would cost several times as much
as what it says.
"""

from struct import Struct
from typing import Final

import msgspec

from webhook.status.view import Health

WINDOW_SECONDS: Final = 600.0
"""Flips of Ready older than this are forgotten."""
MOST_FLIPS: Final = 20
LONGEST_NAME: Final = 253
"""Bytes of a namespace or name that the API server lets through."""


# A Struct and not a NamedTuple: to change one is several times as fast.
class Remembered(msgspec.Struct, frozen=True, gc=False):
    """One object as it is believed to be; times are Unix seconds."""

    kind: int
    """A position in `Tally.kinds`."""
    namespace: str
    name: str
    version: int
    """The resourceVersion of the latest state that is known to be stored; 0 where none is."""
    digest: int
    """Of the status: tells without decoding whether another sight shows the same."""
    generation: int
    """0 for kinds that keep none."""
    observed: int | None
    reconciled: int | None
    intent_at: float
    intent_seen: bool
    """Whether `intent_at` is when the intent changed, and not when it was found changed."""
    observed_at: float | None
    settled_at: float | None
    """When this generation was first seen observed and settled; it may have come unsettled."""
    changed_at: float
    """When ready, settled or health last became what they are."""
    ready: bool | None
    settled: bool
    health: Health
    has_been_ready: bool
    """At this generation: what turns before it is convergence, and no flip."""
    flips: tuple[int, ...]
    """The seconds at which Ready turned, oldest first, no older than WINDOW_SECONDS."""
    owner: str = ""
    """The uid of what it stands below; "" for nothing."""

    def shows(self, generation: int, digest: int) -> bool:
        """Whether a sight tells nothing new."""
        return self.digest == digest and self.generation == generation

    def flips_since(self, at: float) -> tuple[int, ...]:
        """Those that still count."""
        if not self.flips:
            return ()
        return tuple(one for one in self.flips if one > at - WINDOW_SECONDS)


_FIXED: Final = Struct("<HIQqqqddddBBH")
_GLANCED: Final = Struct("<H60xdB")
"""The same as far as the flags, with what lies between kind and `changed_at` passed over."""
_FLAGS_AT, _FLIPS_AT = _FIXED.size - 4, _FIXED.size - 3
_NONE: Final = -(2**63)
_INT64: Final = range(-(2**63) + 1, 2**63)
_NEVER: Final = -1.0
_HEALTHS: Final = tuple(Health)
_READY: Final = (None, False, True)
_SETTLED, _INTENT_SEEN, _HAS_BEEN_READY = 1, 2, 4
_OWNED: Final = 128
_READY_SHIFT: Final = 3
_HEALTH_SHIFT: Final = 5


def glance(data: bytes) -> tuple[int, float, bool, int]:
    """Of what was packed: kind, changed_at, settled, and the position of its health in Health.

    Nothing else is read, for this is asked of every object there is.
    """
    kind, changed_at, flags = _GLANCED.unpack_from(data)
    return kind, changed_at, flags & _SETTLED == _SETTLED, flags >> _HEALTH_SHIFT & 3


def may_name(data: bytes, text: bytes) -> bool:
    """Whether a lower-case text can be in namespace and name, one after the other.

    False is certain; it takes a fraction of what `glance_names` does.
    """
    return text in data[_FIXED.size :].lower()


def glance_names(data: bytes) -> tuple[bytes, bytes]:
    """Namespace and name."""
    start = _after_owner(data)
    end = start + int.from_bytes(data[_FIXED.size - 2 : _FIXED.size], "little")
    return data[start:end], data[end:]


def glance_owner(data: bytes) -> bytes:
    """The uid of what it stands below; b"" for nothing."""
    if data[_FLAGS_AT] & _OWNED:
        return data[_FIXED.size + 5 * data[_FLIPS_AT] + 1 : _after_owner(data)]
    return b""


def _after_owner(data: bytes) -> int:
    at = _FIXED.size + 5 * data[_FLIPS_AT]
    return at + 1 + data[at] if data[_FLAGS_AT] & _OWNED else at


def pack(one: Remembered) -> bytes:
    """The bytes that `unpack` reads."""
    namespace = one.namespace.encode()
    fixed = _FIXED.pack(
        one.kind,
        one.digest,
        one.version,
        one.generation,
        _NONE if one.observed is None else one.observed,
        _NONE if one.reconciled is None else one.reconciled,
        one.intent_at,
        _NEVER if one.observed_at is None else one.observed_at,
        _NEVER if one.settled_at is None else one.settled_at,
        one.changed_at,
        _SETTLED * one.settled
        | _INTENT_SEEN * one.intent_seen
        | _HAS_BEEN_READY * one.has_been_ready
        | _READY.index(one.ready) << _READY_SHIFT
        | _HEALTHS.index(one.health) << _HEALTH_SHIFT
        | _OWNED * bool(one.owner),
        len(one.flips),
        len(namespace),
    )
    if not one.flips and not one.owner:
        return b"".join((fixed, namespace, one.name.encode()))
    flips = (flip.to_bytes(5, "little") for flip in one.flips)
    owner = one.owner.encode()
    length = bytes((len(owner),)) if owner else b""
    return b"".join((fixed, *flips, length, owner, namespace, one.name.encode()))


def unpack(data: bytes) -> Remembered:
    """What was packed."""
    (
        kind, digest, version, generation, observed, reconciled,
        intent_at, observed_at, settled_at, changed_at, flags, flips, namespace,
    ) = _FIXED.unpack_from(data)  # fmt: skip
    names = after_flips = _FIXED.size + 5 * flips
    owner = b""
    if flags & _OWNED:
        names += 1 + data[names]
        owner = data[after_flips + 1 : names]
    return Remembered(
        kind,
        data[names : names + namespace].decode(),
        data[names + namespace :].decode(),
        version,
        digest,
        generation,
        None if observed == _NONE else observed,
        None if reconciled == _NONE else reconciled,
        intent_at,
        bool(flags & _INTENT_SEEN),
        None if observed_at == _NEVER else observed_at,
        None if settled_at == _NEVER else settled_at,
        changed_at,
        _READY[flags >> _READY_SHIFT & 3],
        bool(flags & _SETTLED),
        _HEALTHS[flags >> _HEALTH_SHIFT & 3],
        bool(flags & _HAS_BEEN_READY),
        tuple(
            int.from_bytes(data[at : at + 5], "little") for at in range(_FIXED.size, after_flips, 5)
        ),
        owner.decode(),
    )
