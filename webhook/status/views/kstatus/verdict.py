"""The words of kstatus, and what its rules look at."""

from enum import StrEnum
from typing import NamedTuple

from webhook.status.views.reading import Document
from webhook.status.views.typed import Typed


class Kstatus(StrEnum):
    """Its own words; NotFound is said by those who could not read the object at all."""

    CURRENT = "Current"
    IN_PROGRESS = "InProgress"
    FAILED = "Failed"
    TERMINATING = "Terminating"
    UNKNOWN = "Unknown"
    NOT_FOUND = "NotFound"


class Seen(NamedTuple):
    """What a rule of a kind judges."""

    document: Document
    conditions: list[Typed]
    """`status.conditions`, whose texts may be missing."""
    at: float
    """Now, in Unix seconds."""

    def has(self, kind: str, status: str) -> bool:
        """Whether any condition of that type has that status."""
        return any(c.get("type") == kind and c.get("status") == status for c in self.conditions)


def current_if(done: bool) -> Kstatus:  # noqa: FBT001 - it is the question
    """What most rules end with."""
    return Kstatus.CURRENT if done else Kstatus.IN_PROGRESS
