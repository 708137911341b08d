"""The state that Tracking keeps of one object between its writes, and its form as bytes.

A packed state takes some 150 bytes. As a Python object it would take several times as much, and
100,000 of them are kept in memory.
"""

from struct import Struct
from typing import Final

import msgspec

from genguard.status.view import Health

WINDOW_SECONDS: Final = 600.0
"""Changes of Ready that are older than this are forgotten."""
MOST_FLIPS: Final = 20
LONGEST_NAME: Final = 253
"""The longest namespace or name, in bytes, that the API server accepts."""


# A Struct and not a NamedTuple: to change one is several times as fast.
class TrackedState(msgspec.Struct, frozen=True, gc=False):
    """What is believed of one object. Times are Unix seconds."""

    kind: int
    """The position of its kind: see CountsByKind."""
    namespace: str
    name: str
    version: int
    """The resourceVersion of the latest state known to be stored; 0 if none is."""
    digest: int
    """A checksum of status: tells without decoding whether another state is the same."""
    generation: int
    """metadata.generation; 0 for kinds that have none."""
    observed: int | None
    reconciled: int | None
    intent_at: float
    intent_seen: bool
    """Whether the change of spec itself was seen, so that `intent_at` is its time."""
    observed_at: float | None
    settled_at: float | None
    """When this generation was first seen settled; it may be unsettled again."""
    changed_at: float
    """When ready, settled or health last changed."""
    ready: bool | None
    settled: bool
    health: Health
    has_been_ready: bool
    """At this generation. A change of Ready before that is part of the rollout, not a flip."""
    flips: tuple[int, ...]
    """The times at which Ready changed, oldest first, none older than WINDOW_SECONDS."""
    owner: str = ""
    """The uid of its owner; "" if it has none."""

    def is_same(self, generation: int, digest: int) -> bool:
        """Whether a state with this generation and digest tells nothing new."""
        return self.digest == digest and self.generation == generation

    def flips_since(self, at: float) -> tuple[int, ...]:
        """Return the flips within WINDOW_SECONDS before `at`."""
        if not self.flips:
            return ()
        return tuple(flip for flip in self.flips if flip > at - WINDOW_SECONDS)


_FIXED: Final = Struct("<HIQqqqddddBBH")
_SUMMARY: Final = Struct("<H60xdB")
"""The same fields, but only kind, `changed_at` and the flags are read."""
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


def read_summary(data: bytes) -> tuple[int, float, bool, int]:
    """Return kind, changed_at, settled and the position of its health in Health.

    It reads nothing else of a packed state: the dashboard calls it for every object.
    """
    kind, changed_at, flags = _SUMMARY.unpack_from(data)
    return kind, changed_at, flags & _SETTLED == _SETTLED, flags >> _HEALTH_SHIFT & 3


def may_contain_name(data: bytes, text: bytes) -> bool:
    """Whether namespace or name may contain a lower-case text; only False is certain.

    It costs a fraction of read_names().
    """
    return text in data[_FIXED.size :].lower()


def read_names(data: bytes) -> tuple[bytes, bytes]:
    """Return namespace and name of a packed state."""
    start = _after_owner(data)
    end = start + int.from_bytes(data[_FIXED.size - 2 : _FIXED.size], "little")
    return data[start:end], data[end:]


def read_owner(data: bytes) -> bytes:
    """Return the uid of the owner of a packed state; b"" if it has none."""
    if data[_FLAGS_AT] & _OWNED:
        return data[_FIXED.size + 5 * data[_FLIPS_AT] + 1 : _after_owner(data)]
    return b""


def _after_owner(data: bytes) -> int:
    at = _FIXED.size + 5 * data[_FLIPS_AT]
    return at + 1 + data[at] if data[_FLAGS_AT] & _OWNED else at


def pack(state: TrackedState) -> bytes:
    """Return a state as bytes, which unpack() reads."""
    namespace = state.namespace.encode()
    fixed = _FIXED.pack(
        state.kind,
        state.digest,
        state.version,
        state.generation,
        _NONE if state.observed is None else state.observed,
        _NONE if state.reconciled is None else state.reconciled,
        state.intent_at,
        _NEVER if state.observed_at is None else state.observed_at,
        _NEVER if state.settled_at is None else state.settled_at,
        state.changed_at,
        _SETTLED * state.settled
        | _INTENT_SEEN * state.intent_seen
        | _HAS_BEEN_READY * state.has_been_ready
        | _READY.index(state.ready) << _READY_SHIFT
        | _HEALTHS.index(state.health) << _HEALTH_SHIFT
        | _OWNED * bool(state.owner),
        len(state.flips),
        len(namespace),
    )
    if not state.flips and not state.owner:
        return b"".join((fixed, namespace, state.name.encode()))
    flips = (flip.to_bytes(5, "little") for flip in state.flips)
    owner = state.owner.encode()
    length = bytes((len(owner),)) if owner else b""
    return b"".join((fixed, *flips, length, owner, namespace, state.name.encode()))


def unpack(data: bytes) -> TrackedState:
    """Return the state that pack() wrote; raises struct.error or IndexError when cut off."""
    (
        kind, digest, version, generation, observed, reconciled,
        intent_at, observed_at, settled_at, changed_at, flags, flips, namespace,
    ) = _FIXED.unpack_from(data)  # fmt: skip
    names = after_flips = _FIXED.size + 5 * flips
    owner = b""
    if flags & _OWNED:
        names += 1 + data[names]
        owner = data[after_flips + 1 : names]
    return TrackedState(
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
