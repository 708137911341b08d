"""What a running genguard saw of one object: its writes, its findings, and who is called for it."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from genguard.blame.places import Place, place_of_pointer
from genguard.detection.finding import Actor

_STORED: Final = "yes"
_NOT_STORED: Final = "no, it changed nothing"
_SUSPECT: Final = "suspect"


class _Step(msgspec.Struct, rename="camel"):
    time: float
    user: str
    field_manager: str
    subresource: str
    stored: str
    changed: tuple[str, ...]
    others: tuple[str, ...] | None


class _Finding(msgspec.Struct, rename="camel"):
    id: str
    detector: str
    state: str
    paths: tuple[str, ...]
    actors: tuple[Actor, ...]
    message: str = ""


class ObjectAnswer(msgspec.Struct):
    """The answer of /api/object, as far as it is read."""

    writes: tuple[_Step, ...] = ()
    findings: tuple[_Finding, ...] = ()


class _Webhook(msgspec.Struct):
    configuration: str
    webhook: str
    role: str


class WebhooksAnswer(msgspec.Struct):
    """The answer of /api/webhooks, as far as it is read."""

    webhooks: tuple[_Webhook, ...] = ()
    policies: tuple[str, ...] = ()

    @property
    def suspects(self) -> tuple[str, ...]:
        """The webhooks that are called between genguard's two, as findings name them."""
        return tuple(
            f"{one.configuration}/{one.webhook}" for one in self.webhooks if one.role == _SUSPECT
        )


class SeenWrite(msgspec.Struct, frozen=True):
    """One write.

    others  what other webhooks changed on its way; None where that was not seen
    is_stored  whether that is known
    """

    at: float
    user: str
    manager: str
    subresource: str
    changed: frozenset[Place]
    others: frozenset[Place] | None
    is_stored: bool

    @property
    def time(self) -> str:
        """RFC 3339, in seconds."""
        return rfc3339(self.at)


class SeenFinding(msgspec.Struct, frozen=True, rename="camel"):
    """One finding that is not resolved."""

    id: str
    detector: str
    message: str
    places: frozenset[Place]
    actors: tuple[Actor, ...]


class Seen(msgspec.Struct, frozen=True):
    """Everything that a server knows of one object, the latest write first.

    writes     those that changed something
    attempts   those that changed nothing in the end: webhooks took back what was asked for
    called     the webhooks that may change a write, by subresource: "" and "status"
    """

    writes: tuple[SeenWrite, ...] = ()
    attempts: tuple[SeenWrite, ...] = ()
    findings: tuple[SeenFinding, ...] = ()
    called: Mapping[str, tuple[str, ...]] = {}


def seen(
    answer: ObjectAnswer, called: Mapping[str, WebhooksAnswer], document: Mapping[str, Any]
) -> Seen:
    """Make it from a server's answers."""
    writes: dict[bool, list[SeenWrite]] = {True: [], False: []}
    for one in sorted(answer.writes, key=lambda one: one.time, reverse=True):
        seen_write = SeenWrite(
            at=one.time,
            user=one.user,
            manager=one.field_manager,
            subresource=one.subresource,
            changed=frozenset(_places(one.changed, document)),
            others=None if one.others is None else frozenset(_places(one.others, document)),
            is_stored=one.stored == _STORED,
        )
        writes[one.stored != _NOT_STORED].append(seen_write)
    findings = (
        SeenFinding(
            one.id, one.detector, one.message, frozenset(_places(one.paths, document)), one.actors
        )
        for one in answer.findings
        if one.state != "resolved"
    )
    return Seen(
        tuple(writes[True]),
        tuple(writes[False]),
        tuple(findings),
        {subresource: one.suspects for subresource, one in called.items()},
    )


def _places(pointers: tuple[str, ...], document: Mapping[str, Any]) -> Iterator[Place]:
    """Yield places; a whole spec or status is what a server says of writes it did not compare."""
    for pointer in pointers:
        place = place_of_pointer(pointer, document)
        if place is not None and len(place) > 1:
            yield place


def rfc3339(at: float) -> str:
    """Format Unix seconds as managedFields do."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}"
