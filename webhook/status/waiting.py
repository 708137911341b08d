"""What is believed of an object until it is known to be stored, and what it becomes then."""

import msgspec
from msgspec.structs import replace

from webhook.status.remembered import Remembered, unpack


class Waiting(msgspec.Struct, frozen=True, gc=False):
    """A write that is believed, or a new intent that waits for somebody to act on it."""

    since: float
    before: bytes | None
    """What was believed before; None for a creation."""
    after: bytes | None
    """What is, when nothing more is heard of a new intent; None where that is believed already."""
    stored: bool

    @property
    def is_creation(self) -> bool:
        """Nothing was stored before, and nobody knows whether anything is now."""
        return self.before is None and not self.stored

    def decided(self, believed: Remembered) -> Remembered:
        """What is believed when nothing more was heard of it."""
        after = unpack(self.after) if self.after else believed
        # Version 0, where it is not known: what the next write finds stored is right.
        return replace(after, version=believed.version if self.stored else 0)
