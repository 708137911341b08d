"""The answer of evaluate() for one object: ready, settled, health, and the reasons."""

from enum import StrEnum
from typing import Any, Final, NamedTuple

import msgspec

from genguard.formats.nesting import UnreadableObject
from genguard.objects.fields import ABSENT

_LONGEST_WORD: Final = 64


class Blocks(StrEnum):
    """What an object cannot be while a reason holds."""

    BOTH = "ready and settled"
    READY = "ready"
    SETTLED = "settled"
    NOTHING = ""
    """A remark: worth knowing, but no reason to wait."""


class Reason(NamedTuple):
    """One field that blocks, or a remark when `want` is empty. Users read it as text."""

    path: str
    """As kubectl writes it: `status.availableReplicas`, `status.conditions[Ready]`."""
    have: Any
    """A number, a boolean, a short word or ABSENT; never free text from the object."""
    want: str = ""
    note: str = ""
    """What it means, where the values alone do not say it."""
    blocks: Blocks = Blocks.BOTH

    @property
    def against_ready(self) -> bool:
        """The object is not ready while this holds."""
        return self.blocks is Blocks.BOTH or self.blocks is Blocks.READY

    @property
    def against_settled(self) -> bool:
        """The object is not settled while this holds."""
        return self.blocks is Blocks.BOTH or self.blocks is Blocks.SETTLED

    def __str__(self) -> str:
        """`status.availableReplicas 2, want 3`; `status.loadBalancer.ingress absent, want 1`."""
        have = type_word(self.have) if self.have in (ABSENT, None) else str(self.have)
        have = have.lower() if isinstance(self.have, bool) else have
        text = f"{self.path} {have}"
        if self.want:
            text += f", want {self.want}"
        return f"{text}: {self.note}" if self.note else text


class Health(StrEnum):
    """The three colours of "Improve .status", the worst last."""

    GREEN = "Green"
    YELLOW = "Yellow"
    RED = "Red"


# Structs and not dataclasses: one of each is made for each write of each tracked object, and a
# Struct costs a fraction.
class Past(msgspec.Struct, frozen=True, gc=False):
    """What is known from earlier writes of the same object. Times are Unix seconds."""

    intent_since: float
    """When the current generation was stored."""
    observed_since: float | None
    """When the controller was first seen to have acted on the current generation: its
    observedGeneration caught up or, for kinds that have none, its status was written."""
    reconciled_generation: int | None
    """The last generation at which the object was settled."""
    ready_flips: int
    """How often Ready changed within the time that counts as flapping."""
    images: bytes = b""
    """Of a Pod: which image spec asked for when each container was first seen (pod_images.py)."""


class StatusView(msgspec.Struct, frozen=True, gc=False):
    """Whether one object is done, and if not, why. Change a copy with msgspec.structs.replace."""

    group: str
    version: str
    kind: str
    namespace: str
    name: str
    uid: str
    ready: bool | None
    """None: not known yet, because spec has just changed and no controller has acted on it."""
    settled: bool
    health: Health
    progress: float | None
    """Between 0 and 1; None for kinds whose status has no counters."""
    generation: int | None
    observed_generation: int | None
    reconciled_generation: int | None
    terminating_replicas: int | None
    """None where status does not say: absent is not 0."""
    table_ready: bool | None
    """The literal Ready table of "Improve .status"; None for kinds that it does not name."""
    reasons: tuple[Reason, ...]
    deleting: bool = False
    """metadata.deletionTimestamp is set."""
    failed: bool = False
    """Red. Waiting does not help: the controller gave up, or a deadline of the object passed."""
    finished: bool = False
    """It ran to its end and will not run again: a Succeeded or Failed Pod, a finished Job."""
    traffic_ready: bool | None = None
    """What external probes say in the condition TrafficReady; None: nothing of this generation."""
    application_qualified: bool | None = None
    """The same for ApplicationQualified. Neither changes ready or settled."""


def remark(path: str, *, have: Any, note: str) -> Reason:
    """Make a reason that blocks nothing."""
    return Reason(path, have, "", note, Blocks.NOTHING)


def type_word(value: Any) -> str:
    """Return the JSON type of a value in words: `a string`, `a list`; never its content."""
    return _TYPE_WORDS.get(type(value), "a value")


def short_word(value: Any) -> str:
    """Return a phase, status or condition reason unchanged; for anything longer only its type.

    apimachinery pkg/apis/meta/v1/types.go:Condition limits a reason to
    `[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?`. A text that is no such word may be confidential.
    """
    if isinstance(value, str):
        if len(value) <= _LONGEST_WORD and value.isascii() and value.isidentifier():
            return value
        return "a text" if value else "empty"
    return type_word(value)


_TYPE_WORDS: Final = {
    type(ABSENT): "absent",
    type(None): "null",
    bool: "a boolean",
    int: "a number",
    float: "a number with a fraction",
    str: "a string",
    list: "a list",
    dict: "an object",
    UnreadableObject: "unreadable",
}
