"""Count the writes of a log that cannot be judged, and say why and what to set."""

from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Final

from genguard.audit.event import ObjectReference

_MOST_GROUPS: Final = 1_000
_SHOWN_GROUPS: Final = 5
_WITHHELD: Final = frozenset({("", "secrets"), ("", "configmaps")})
"""Their contents may be kept out of a log on purpose (docs/audit-logs.md)."""


class Unjudged(StrEnum):
    """Why a write cannot be judged."""

    METADATA = "level Metadata"
    REQUEST = "level Request"
    CUT = "cut"
    STATE = "stored state not known"
    PATCHES = "patches do not apply"


_WHY: Final = {
    Unjudged.METADATA: "of level Metadata: what was written is not in the log",
    Unjudged.REQUEST: "of level Request: what was stored is not in the log",
    Unjudged.CUT: (
        "without their objects, which the API server has cut off: raise its "
        "--audit-log-truncate-max-event-size"
    ),
    Unjudged.STATE: (
        "whose object was stored in a state that is not known: the first of each object in the "
        "log, and the first after a gap or a binding. Give the older files of the log, too"
    ),
    Unjudged.PATCHES: (
        "that webhooks changed: their patches do not apply to what is known of the request"
    ),
}
_LEVELS: Final = frozenset({Unjudged.METADATA, Unjudged.REQUEST})


class UnjudgedWrites:
    """How many writes were not judged, by reason and API group. Bounded in groups."""

    def __init__(self) -> None:
        self._counts: Final[dict[Unjudged, int]] = dict.fromkeys(Unjudged, 0)
        self._groups: Final[dict[Unjudged, Counter[str]]] = {one: Counter() for one in Unjudged}

    def count(self, reason: Unjudged, reference: ObjectReference) -> None:
        """Count one write of an object."""
        self._counts[reason] += 1
        if (reference.api_group, reference.resource) in _WITHHELD:
            return
        groups = self._groups[reason]
        if reference.api_group in groups or len(groups) < _MOST_GROUPS:
            groups[reference.api_group] += 1

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield for each reason how many writes it concerns, and a sentence for people."""
        for reason, writes in self._counts.items():
            if writes:
                message = f"{writes} writes {_WHY[reason]}{self._advice(reason)}"
                yield {"reason": reason.value, "writes": writes, "message": message}

    def _advice(self, reason: Unjudged) -> str:
        groups = self._groups[reason]
        if reason not in _LEVELS or not groups:
            return ""
        often = sorted(groups, key=lambda one: (-groups[one], one))
        names = ", ".join(one or '"" (core)' for one in often[:_SHOWN_GROUPS])
        more = f" and {len(often) - _SHOWN_GROUPS} more" if len(often) > _SHOWN_GROUPS else ""
        return f"; set level RequestResponse for group {names}{more} in the audit policy"
