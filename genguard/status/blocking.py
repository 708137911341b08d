"""What keeps an object from being settled, since when, and whether it still waits or is stuck.

A rollout that proceeds changes what blocks it: `status.availableReplicas 2, want 5`, then `3, want
5`. So an object is stuck where the same field blocks with the same value for longer than its
controller needs, however often its status is written meanwhile. Pure.
"""

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from genguard.status.checked_object import DEFAULT_DEADLINE
from genguard.status.pod_replacement import STOPS_WITHIN
from genguard.status.tracked_state import TrackedState
from genguard.status.view import Health, Reason

OBSERVES_SECONDS: Final = 60.0
"""A controller that always writes observedGeneration does so within seconds of a change of spec.
With a finding about it, GRACE_SECONDS are enough: see webhook/dashboard/broken.py."""
FAILED_SECONDS: Final = 30.0
"""An image that could not be pulled once, or a container that is started again, often passes."""
PROGRESS_SECONDS: Final = DEFAULT_DEADLINE
"""A slow start of a container, a volume or a node changes nothing for minutes. The default of a
Deployment's spec.progressDeadlineSeconds (apps/v1 types.go)."""
LONGEST_TEXT: Final = 200
OBSERVED: Final = ("status.observedGeneration", "metadata.generation")
"""What blocks until a controller has acted on the current spec."""
_RUNS: Final = re.compile(
    r"status\.conditions\[(Succeeded|Complete|Completed)\]|status\.phase Running, want Succeeded"
)
"""Of Jobs, and what else runs to its end: nobody knows how long that takes."""


class Blocking(msgspec.Struct, frozen=True, gc=False):
    """What blocks an object; `text` as Reason writes it, "" where it is not known."""

    since: float
    """When this field was first seen to block with this value, in Unix seconds."""
    text: str
    seen_at: float = 0.0
    """When a watch or a read last showed the object, in Unix seconds; 0: only writes did since."""

    @property
    def is_unobserved(self) -> bool:
        """Whether it waits for its controller to see the current spec."""
        return self.text.startswith(OBSERVED)

    @property
    def is_deleted(self) -> bool:
        """Whether its deletion was asked for: it is gone soon, and often no write shows when."""
        return self.text.startswith("metadata.deletionTimestamp")

    @property
    def runs_to_its_end(self) -> bool:
        """Whether it waits for work whose length nobody knows."""
        return _RUNS.match(self.text) is not None

    @property
    def stops_within(self) -> float:
        """The grace period of the pods whose end it waits for, in seconds; 0 if it is short."""
        found = STOPS_WITHIN.search(self.text)
        return float(found[1]) if found else 0.0


def find_blocking_text(reasons: Iterable[Reason]) -> str:
    """Return the first reason that keeps an object from being settled, as text; "" without one."""
    for reason in reasons:
        if reason.against_settled:
            return str(reason)[:LONGEST_TEXT]
    return ""


def guess_blocking(state: TrackedState) -> Blocking:
    """Return what blocks an unsettled object of which only the packed state is known."""
    text = ""
    if state.generation and state.observed is not None and state.observed < state.generation:
        text = f"status.observedGeneration {state.observed}, want {state.generation}"
    elif state.ready is None:
        text = f"metadata.generation {state.generation}, want a newer status"
    return Blocking(state.changed_at, text)


def stuck_at(state: TrackedState, blocking: Blocking, *, always_observes: bool) -> float | None:
    """Return the time, in Unix seconds, from which an unsettled object counts as stuck.

    None where no time tells. `always_observes`: its controller always writes observedGeneration.
    """
    if state.health is Health.RED:
        return state.changed_at + FAILED_SECONDS
    if blocking.runs_to_its_end:
        return None
    seconds = PROGRESS_SECONDS
    if blocking.is_unobserved and always_observes:
        seconds = OBSERVES_SECONDS
    return blocking.since + seconds + blocking.stops_within
