"""What leadership is for the parts that use it; webhook/cluster/lease.py has the election."""

from typing import Protocol


class Leadership(Protocol):
    """Whether this replica leads. Read often, so it does no I/O."""

    @property
    def is_leader(self) -> bool:
        """Whether this replica leads now. Only one does, while the store or API is reached."""

    @property
    def vacant_since(self) -> float:
        """On a leader: when another replica was last known to lead, in monotonic seconds."""
