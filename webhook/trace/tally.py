"""Adds up what each configuration did over all the writes that were seen."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import msgspec

from webhook.admission.review import AdmissionRequest
from webhook.trace.effects import Clobber, Effect, Kind, asked, effects
from webhook.trace.passes import Step
from webhook.trace.plan import Candidate, Plan

_MOST_FIELDS: Final = 500


@dataclass(frozen=True, slots=True)
class FieldKey:
    """Effects that are told as one."""

    subresource: str
    pointer: str
    kind: Kind
    clobber: Clobber | None
    discarded: bool


@dataclass(slots=True)
class Row:
    """What one configuration, or several between which nothing sorts, did."""

    writes: Counter[str] = field(default_factory=Counter)  # by subresource
    changed: int = 0
    fields: dict[FieldKey, tuple[int, Effect]] = field(default_factory=dict)  # with the last seen

    def add(self, subresource: str, found: list[Effect]) -> None:
        """One write more."""
        self.writes[subresource] += 1
        self.changed += bool(found)
        for one in found:
            key = FieldKey(subresource, one.pointer, one.kind, one.clobber, one.discarded)
            if key in self.fields or len(self.fields) < _MOST_FIELDS:
                self.fields[key] = (self.fields.get(key, (0, one))[0] + 1, one)

    @property
    def clobbers(self) -> list[FieldKey]:
        """The fields that lost an observedGeneration."""
        return [key for key in self.fields if key.clobber is not None]


class Tally:
    """Takes the steps of all passes."""

    def __init__(self, plan: Plan) -> None:
        self._plan: Final = plan
        self.rows: Final[dict[tuple[str, ...], Row]] = {}
        self.requests: Final[dict[tuple[str, str], Row]] = {}

    def step(self, step: Step) -> None:
        """Count what was done from one view to the next.

        Raises msgspec.MsgspecError and RecursionError for objects that cannot be decoded.
        """
        subresource = step.after.subresource
        status = self._plan.traced.has_status
        if step.before is None:
            if step.position == 0:
                who = step.after.wire.user_info.username, _manager(step.after)
                row = self.requests.setdefault(who, Row())
                row.add(subresource, asked(step.after, status=status))
            return
        acting = self._between(step.position_before, step.position, subresource)
        found = effects(step.before, step.after, status=status)
        if acting:
            self.rows.setdefault(tuple(acting), Row()).add(subresource, found)

    def _between(self, first: int, last: int, subresource: str) -> list[str]:
        slots = self._plan.slots[first + 1 : last + 1]
        return [
            one.configuration
            for slot in slots
            for one in slot.candidates
            if one.webhooks.get(subresource)
        ]

    def unseen(self) -> Iterator[Candidate]:
        """Candidates that were between no two views of any write."""
        judged = {name for names in self.rows for name in names}
        for one in self._plan.candidates:
            if one.configuration not in judged:
                yield one


class _Options(msgspec.Struct, rename="camel"):
    field_manager: str = ""


def _manager(view: AdmissionRequest) -> str:
    raw = view.wire.options
    options = msgspec.json.decode(raw, type=_Options | None) if bytes(raw) else None
    return options.field_manager if options else ""
