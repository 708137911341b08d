"""What evaluate() answers, and what it may be told of an object's past."""

from enum import StrEnum

import msgspec

from webhook.status.reason import Reason


class Health(StrEnum):
    """Seed 004's three colours, worst last."""

    GREEN = "Green"
    YELLOW = "Yellow"
    RED = "Red"


# Structs and not dataclasses: made on each write of each tracked object, at a fraction of the cost.
class Past(msgspec.Struct, frozen=True, gc=False):
    """What earlier writes of one object told; times are Unix seconds."""

    intent_since: float
    """When the generation of now was stored."""
    observed_since: float | None
    """When its controller was first seen to have acted on it: an observedGeneration caught up, or,
    where a kind writes none, its status was written."""
    reconciled_generation: int | None
    """The last generation at which the object was settled."""
    ready_flips: int
    """How often Ready turned within the window that counts as flapping."""


class StatusView(msgspec.Struct, frozen=True, gc=False):
    """Whether one can go home now, and if not, why not; change one with msgspec.structs.replace."""

    group: str
    version: str
    kind: str
    namespace: str
    name: str
    uid: str
    ready: bool | None
    """None: not known yet, for its intent has just changed and nobody has acted on it."""
    settled: bool
    health: Health
    progress: float | None
    """Between 0 and 1; None for kinds whose status counts nothing."""
    generation: int | None
    observed_generation: int | None
    reconciled_generation: int | None
    terminating_replicas: int | None
    """None where the status does not say: absent is not 0."""
    table_ready: bool | None
    """Seed 004's Ready table to the letter; None outside its nine kinds."""
    reasons: tuple[Reason, ...]
    deleting: bool = False
    """It has a deletionTimestamp."""
    failed: bool = False
    """Red, and to wait longer does not help: given up, or past the deadline of the object."""
    finished: bool = False
    """It ran to its end and will not run again: a Succeeded or Failed Pod, a finished Job."""
