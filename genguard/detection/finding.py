"""A finding: this loop, on this object, these fields, this actor, since then."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from enum import StrEnum
from math import inf
from operator import attrgetter
from typing import Any, Final, Literal

import msgspec

from genguard.detection.sample import WriteDiff
from genguard.detection.write import ObjectKey
from genguard.objects.served import resource_name

SECONDS_AFTER_REPAIR: Final = 5.0
"""A finding whose damage is gone waits for its end from so long after its last signal: its writer
may be about to write again."""
_ENDING_PART: Final = 7
"""Without a signal a finding is resolved after 60 s, or more where it came back. It waits for that
from a seventh of this time on, 9 s, or until its next signal is overdue."""
_OVERDUE: Final = 4 / 3
"""Of its pace: a loop that repeats once a minute is overdue after 80 s."""
State = Literal["open", "quiet", "resolved"]
STATES: Final[tuple[State, ...]] = ("open", "quiet", "resolved")


class _Ranked(StrEnum):
    @property
    def rank(self) -> int:
        """Its place in the order: the worst severity has the largest, the surest the smallest."""
        return [*type(self)].index(self)


class Severity(_Ranked):
    """Once is an anomaly; the same again on one object is a loop."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class Confidence(_Ranked):
    """How sure it is that an actor did it."""

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"


class Actor(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Who does it: a webhook ("configuration/webhook"), a user, or a policy.

    processes  the pods of the user, or its credentials or user agents, where there are several
    """

    type: str
    name: str
    field_manager: str
    confidence: Confidence
    processes: tuple[str, ...] = ()


def names_of(
    actors: Sequence[Actor], name: Callable[[Actor], str] = attrgetter("name")
) -> list[str]:
    """Return the names of actors; of two with one name each has its field manager as well."""
    known = Counter((actor.type, actor.name) for actor in actors)
    return [
        f"{name(actor)} as {actor.field_manager}"
        if actor.field_manager and known[actor.type, actor.name] > 1
        else name(actor)
        for actor in actors
    ]


def labels_of(actors: Sequence[Actor]) -> list[str]:
    """Return actors as people read them, also two of one name by manager and processes.

    A webhook is known by its slash, a policy by nothing in its name.
    """
    return [
        f"{'policy ' * (actor.type == 'policy')}{name} "
        f"({', from '.join(filter(None, (actor.confidence, ' and '.join(actor.processes))))})"
        for name, actor in zip(names_of(actors), actors, strict=True)
    ]


class FoundObject(ObjectKey, frozen=True, array_like=False):
    """The object it happens to."""

    @property
    def resource_name(self) -> str:
        """`deployments.apps`, `pods`."""
        return resource_name(self.group, self.resource)

    @property
    def identity(self) -> str:
        """The uid; of an object that comes and goes, and so has none, its names."""
        return self.uid or f"{self.group}/{self.resource}/{self.namespace}/{self.name}"


NO_OBJECT: Final = FoundObject("", "", "", "", "", "")
"""The object of a finding that is about many objects."""


class FoundObjects(msgspec.Struct, frozen=True):
    """The objects of a finding about many: how many of each resource, and the first few."""

    count: int
    kinds: dict[str, int]
    examples: tuple[FoundObject, ...]

    @property
    def label(self) -> str:
        """As people read it: `3,000 pods`, `2,990 pods and 10 deployments`."""
        return " and ".join(f"{count:,} {kind}" for kind, count in self.kinds.items())


class Trial(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a step would have done to the last writes of the object: see fix.py.

    ended  how many of the writes that do damage it would have ended
    of     how many writes that do damage are remembered
    also   what else it would have changed: fields, and in which writes
    not_tried  why it was not tried; "" where it was
    """

    ended: int = 0
    of: int = 0
    also: tuple[str, ...] = ()
    not_tried: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether it was tried, and ended all of them."""
        return 0 < self.of == self.ended

    @property
    def text(self) -> str:
        """As people read it."""
        if self.not_tried:
            return f"Not tried: {self.not_tried}."
        also = f" It would also leave alone {' and '.join(self.also)}." if self.also else ""
        return f"Ends it: {self.ended} of {self.of} of the last writes.{also}"


class FixStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step that ends a loop.

    command  a line for a shell; "" where there is none
    stanza   YAML to add to a manifest; "" where there is none
    lasting  it ends the cause; the steps before it stop the damage
    trial    what it would have done to the last writes; None of a step that ends nothing by itself
    """

    title: str
    text: str
    command: str = ""
    stanza: str = ""
    lasting: bool = False
    trial: Trial | None = None


class Finding(
    msgspec.Struct,
    frozen=True,
    rename="camel",
    tag="finding",
    tag_field="type",
    omit_defaults=True,
    kw_only=True,
):
    """One finding as it is shown; `paths` are JSON Pointers, times RFC 3339.

    state   open; quiet: no new signal for a while, but what is wrong in the stored object is still
            wrong; resolved
    fix     the steps that end the loop, where they were asked for: see genguard/detection/fix.py
    repaired  what was wrong in the stored object is right again, and no signal came since: it is
            resolved after a while without a signal
    restored  genguard puts back in each write what is lost there: what is stored is right
    resolves_after  how many seconds after its last signal it is resolved, if none comes; 0 where
            it is resolved, what is wrong in the stored object is still wrong, or it is incomplete
    repair  the command that puts lost values back by hand; "" where there is none
    incomplete_since  since when reviews of its object have been lost or not examined, so that
            signals may have been missed: it is not resolved until they are complete; "" if they are
    diff    what happened in one of its writes, where it was asked for: genguard/detection/sample.py
    caused_by  the id of the finding that causes this one; "" where it stands alone
    object  NO_OBJECT of a finding about many `objects`, which one actor damages in one way
    part_of  the id of the finding about many objects, of which this is one; "" of others
    """

    id: str
    detector: str
    severity: Severity
    state: str
    object: FoundObject = NO_OBJECT
    objects: FoundObjects | None = None
    subresource: str
    paths: tuple[str, ...]
    actors: tuple[Actor, ...]
    count: int
    first_seen: str
    last_seen: str
    message: str
    evidence: tuple[dict[str, Any], ...]
    fix: tuple[FixStep, ...] = ()
    repair: str = ""
    caused_by: str = ""
    part_of: str = ""
    repaired: bool = False
    restored: bool = False
    resolves_after: float = 0.0
    incomplete_since: str = ""
    diff: WriteDiff | None = None

    @property
    def above(self) -> str:
        """The id of the finding beneath which this one is shown, and which is reported instead."""
        return self.caused_by or self.part_of

    @property
    def about(self) -> str:
        """What it is about, as people read it: `pods shop/web-1 /status`, `3,000 pods /status`."""
        where = self.object
        names = "/".join(part for part in (where.namespace, where.name) if part)
        what = self.objects.label if self.objects else f"{where.resource_name} {names}"
        return f"{what} /{self.subresource}" if self.subresource else what

    @property
    def subject(self) -> FoundObject:
        """The object, or the first of many."""
        return self.object if self.objects is None else self.objects.examples[0]

    @property
    def ends(self) -> tuple[float, float]:
        """When it begins to wait to be resolved, and when all is right again; inf: nobody knows.

        In Unix seconds, if no signal comes. It only waits where nothing is left of it and no signal
        comes any more. All is right where the damage is gone, and its next signal overdue.
        """
        if not self.resolves_after:
            return inf, inf
        first, last = (
            datetime.fromisoformat(at).timestamp() for at in (self.first_seen, self.last_seen)
        )
        overdue = last + _OVERDUE * (last - first) / max(self.count - 1, 1)
        if self.repaired:
            return last + SECONDS_AFTER_REPAIR, max(last + SECONDS_AFTER_REPAIR, overdue)
        return max(last + self.resolves_after / _ENDING_PART, overdue), inf

    def is_ending(self, now: float) -> bool:
        """Whether it only waits to be resolved, at a time in Unix seconds."""
        return self.ends[0] <= now

    @property
    def labels(self) -> dict[str, str]:
        """What never changes in it: the labels by which its alert is known, and may be selected."""
        return {
            "finding": self.id,
            "detector": self.detector,
            "group": self.object.group,
            "resource": self.object.resource,
            "namespace": self.object.namespace,
            "name": self.object.name,
        }

    @property
    def actor_labels(self) -> str:
        """The actors, as alerts, Events and reports name them."""
        return ", ".join(labels_of(self.actors)) or "unknown"
