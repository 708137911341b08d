"""The state that Tracking keeps of one object between its writes, and its form as bytes.

A packed state takes some 150 bytes. As a Python object it would take several times as much, and
100,000 of them are kept in memory.
"""

from typing import Final

import msgspec

from genguard.status.view import Health

WINDOW_SECONDS: Final = 600.0
"""Changes of Ready that are older than this are forgotten."""
MOST_FLIPS: Final = 20
LONGEST_NAME: Final = 253
"""The longest namespace or name, in bytes, that the API server accepts."""


# A Struct and not a NamedTuple: to change one is several times as fast.
class TrackedSummary(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The part of a state that is read of every object, for lists and trees of them."""

    kind: int
    """The position of its kind: see CountsByKind."""
    namespace: str
    name: str
    owner: str
    """The uid of its owner; "" if it has none."""
    changed_at: float
    """When ready, settled or health last changed, in Unix seconds."""
    settled: bool
    health: Health


class TrackedState(TrackedSummary, frozen=True, gc=False, array_like=True):
    """What is believed of one object. Times are Unix seconds."""

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
    ready: bool | None
    has_been_ready: bool
    """At this generation. A change of Ready before that is part of the rollout, not a flip."""
    flips: tuple[int, ...]
    """The times at which Ready changed, oldest first, none older than WINDOW_SECONDS."""

    def is_same(self, generation: int, digest: int) -> bool:
        """Whether a state with this generation and digest tells nothing new."""
        return self.digest == digest and self.generation == generation

    def flips_since(self, at: float) -> tuple[int, ...]:
        """Return the flips within WINDOW_SECONDS before `at`."""
        if not self.flips:
            return ()
        return tuple(flip for flip in self.flips if flip > at - WINDOW_SECONDS)


pack: Final = msgspec.msgpack.Encoder().encode
"""Return a state as bytes."""
unpack: Final = msgspec.msgpack.Decoder(TrackedState).decode
"""Return the state that was packed; raises msgspec.MsgspecError when it is cut off."""
read_summary: Final = msgspec.msgpack.Decoder(TrackedSummary).decode
"""Return the beginning of a packed state, and skip the rest of it."""
