"""What the API server will make of metadata.generation, and why."""

from enum import StrEnum

import msgspec


class Cause(StrEnum):
    """Why generation moves, or why it does not. `explain` and audit annotations print these."""

    CREATED = "created"
    SPEC_CHANGED = "spec-changed"
    REPLICAS_CHANGED = "replicas-changed"
    DELETION_STARTED = "deletion-started"
    EVICTED = "evicted"
    NOTHING_COUNTED = "nothing-counted"
    SUBRESOURCE_KEEPS = "subresource-keeps"
    ALREADY_DELETING = "already-deleting"
    REMOVED_AT_ONCE = "removed-at-once"
    DELETE_KEEPS = "delete-keeps"
    KEEPS_NONE = "keeps-none"
    NOT_STORED = "not-stored"
    NO_OBJECT = "no-object"
    UNKNOWN_STATUS_SUBRESOURCE = "unknown-status-subresource"


class Prediction(msgspec.Struct, frozen=True):
    """The generation the API server stores for one write.

    generation  the value after the write; None where the object keeps none (0 on the wire) or
                where the review does not show enough to tell (`cause` says which)
    step        0 or 1: by how much the write moves it, None when the review cannot tell;
                the only answer for Scale and Eviction, which carry no generation
    effective   whether a metadata.generation sent by a webhook would be stored as sent
    """

    generation: int | None
    step: int | None
    cause: Cause
    effective: bool = False

    @property
    def moves(self) -> bool:
        """The write is counted."""
        return self.step == 1
