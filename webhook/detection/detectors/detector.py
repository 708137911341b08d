"""What every detector is given and gives back."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Protocol

from webhook.detection.history import ObjectHistory
from webhook.detection.write import Requester, Write


class Blame(StrEnum):
    """Between which phases it happened, which decides who can have done it."""

    OTHERS = "others"  # between intent and mutate: other webhooks
    REQUESTER = "requester"  # already there at intent: the requester, or a policy before it
    EITHER = "either"  # the intent was not seen
    SERVER = "server"  # between mutate and outcome


@dataclass(frozen=True, slots=True)
class Sign:
    """Something wrong about one write; the ledger makes findings of signs that come again.

    requesters  who is blamed besides, or instead of, other webhooks
    minor       never more than info, however often it comes
    reinvoked   it happened in round 1, in which only webhooks are called that ask for it
    """

    blame: Blame
    paths: tuple[str, ...]
    message: str
    requesters: tuple[Requester, ...] = ()
    minor: bool = False
    reinvoked: bool = False
    evidence: dict[str, object] = field(default_factory=dict)


class Detector(Protocol):
    """Pure: equal writes and histories give equal signs."""

    name: ClassVar[str]

    def asked(self, write: Write, past: ObjectHistory) -> Iterator[Sign]:
        """Judge a write that is complete, whether or not it will be stored."""

    def stored(self, write: Write, past: ObjectHistory) -> Iterator[Sign]:
        """Judge a write that is known to have been stored."""
