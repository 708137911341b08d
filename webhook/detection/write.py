"""One write as detectors see it: its phases joined, and what each of them changed."""

from typing import Final, NamedTuple

import msgspec

from webhook.detection.difference import Difference
from webhook.objects.observed import Observed


class ObjectKey(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Which object; the uid tells objects of one name apart."""

    group: str
    version: str
    resource: str
    namespace: str
    name: str
    uid: str


class Requester(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """Who sent a write."""

    user: str
    manager: str


class Acted(NamedTuple):
    """A MutatingAdmissionPolicy that acted on a write; `is_sure`: nothing about it is unknown."""

    policy: str
    is_sure: bool


class Called(NamedTuple):
    """Webhooks (`configuration/webhook`) that rules and selectors call, in the order of calls."""

    first: tuple[str, ...]
    again: tuple[str, ...]  # those that ask to be reinvoked


NOBODY: Final = Called((), ())


class Write(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An update with its phases joined. Digests and numbers; contents none but in a Difference.

    asked    what the requester changed of what was stored; None when its intent was not seen
    others   what other webhooks changed of what was asked; None when the intent was not seen
    again    what they changed once more when reinvoked
    result   what would be stored, compared with what was
    known_wanted  what is known of `wanted` where leaves tell it not
    observes      whether a status of this write has an observedGeneration at all, be it 0
    policies      which may have acted before the intent was seen: part of what was asked is theirs
    called        who of the other webhooks may have acted
    missing       phases of this write that were not seen here: another replica may have seen them
    """

    time: float
    object: ObjectKey
    subresource: str
    requester: Requester
    base: str
    writes_status: bool
    status_counts: bool
    asked: Difference | None
    others: Difference | None
    again: Difference
    result: Difference
    known_wanted: int | None
    state_before: int
    state_after: int
    has_outcome: bool
    generation_before: int
    generation_after: int
    generation_predicted: int | None
    observed_before: Observed
    observed_asked: Observed
    observed_sent: Observed
    observed_after: Observed
    observes: bool = True
    policies: tuple[Acted, ...] = ()
    called: Called = NOBODY
    missing: tuple[str, ...] = ()

    @property
    def changed_something(self) -> bool:
        """Not a no-op."""
        return bool(self.result)

    @property
    def sent(self) -> Difference:
        """What was asked; where the intent was not seen, what came of it."""
        return self.result if self.asked is None else self.asked

    @property
    def asked_nothing(self) -> bool:
        """Certainly: the intent was seen."""
        return self.asked is not None and not self.asked

    @property
    def wanted(self) -> int | None:
        """Equal where the same was asked for, times aside; None where that is nothing."""
        return self.sent.wanted if self.known_wanted is None else self.known_wanted

    @property
    def counted(self) -> bool:
        """Generation moved."""
        return self.generation_after > self.generation_before

    @property
    def is_changed(self) -> bool:
        """By other webhooks, when they were asked or asked again."""
        return bool(self.others or self.again)

    @property
    def writes_more(self) -> bool:
        """More than status can have been written."""
        return self.subresource != "status"
