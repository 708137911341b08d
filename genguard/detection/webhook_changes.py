"""What each webhook does: in which share of writes it changes something, and which fields.

Where several are called for a write, each of them may have made what differs: `shared` says so.
Bounded in webhooks, kinds and fields; paths alone are kept.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from genguard.admission.matching import ResourceKind
from genguard.admission.review import Operation
from genguard.detection.changes import Change
from genguard.detection.sample import field_name
from genguard.detection.write import Write
from genguard.objects.bounded import count_often
from genguard.objects.fields import Path, from_pointer, to_pointer
from genguard.objects.served import resource_name

_MOST: Final = 1_000
"""Webhooks, each with one kind and operation."""
_MOST_FIELDS: Final = 60
"""Of each; the rarest is forgotten first, so that names which are new each time push out none."""
_MOST_OF_WRITE: Final = 30
_MOST_LEAVES: Final = 500
"""Of one write."""
_SHOWN: Final = 8
_WORST_FIRST: Final = "removes", "replaces", "adds"


_Step = tuple[str, str]
"""What is done, and to which field."""


class ChangedField(msgspec.Struct, frozen=True, rename="camel"):
    """What a webhook does to a field, any item of a list as `*`, and in how many writes."""

    does: str
    field: str
    writes: int


class WebhookChanges(msgspec.Struct, frozen=True, rename="camel"):
    """What a webhook does to one kind.

    called   writes that it was called for, and that were compared; changed: those of them that
             came out otherwise
    shared   the changed ones in which another one may have done a part of it
    does     the fields that it changes most often
    """

    operation: Operation
    resource: str
    called: int
    changed: int
    shared: int
    does: tuple[ChangedField, ...]


class _Count(msgspec.Struct, gc=False):
    called: int = 0
    changed: int = 0
    shared: int = 0
    fields: Counter[_Step] = msgspec.field(default_factory=Counter)


class Tally:
    """Counts what webhooks do."""

    def __init__(self) -> None:
        self._counts: Final[dict[tuple[str, Operation, ResourceKind], _Count]] = {}

    def note(self, write: Write) -> None:
        """Take in a write of which it is known what was asked for."""
        names = write.called.first
        is_unknown = write.operation is Operation.CREATE and not write.content.sent.changes
        if not names or write.content.webhook is None or is_unknown:
            return
        steps = _steps(write.of_webhooks()[:_MOST_LEAVES]) if write.is_mutated else {}
        who = {step: write.called.about((at,), again=False)[0] for step, at in steps.items()}
        location = write.operation, write.kind
        for name in names:
            key = name, *location
            count = self._counts.get(key)
            if count is None:
                if len(self._counts) >= _MOST:
                    continue
                count = self._counts[key] = _Count()
            count.called += 1
            mine = [step for step, may in who.items() if name in may]
            if mine:
                count.changed += 1
                count.shared += any(len(who[step]) > 1 for step in mine)
                for step in mine:
                    count_often(count.fields, step, _MOST_FIELDS)

    def of(self, webhook: str) -> Iterator[WebhookChanges]:
        """Yield what a webhook (`configuration/webhook`) does to each kind."""
        for (name, operation, kind), count in self._counts.items():
            if name == webhook:
                often = count.fields.most_common(_SHOWN)
                does = tuple(ChangedField(*step, writes) for step, writes in often)
                counts = count.called, count.changed, count.shared
                named = resource_name(kind.group, kind.resource)
                of = f"{named}/{kind.subresource}" if kind.subresource else named
                yield WebhookChanges(operation, of, *counts, does)


def _steps(made: Sequence[Change]) -> dict[_Step, str]:
    """Return what is done to which fields, with a pointer of each.

    An item of a list that is added or removed as a whole is one field: what tells it apart is.
    """
    items = {(change.key[:-1], change.removed) for change in made if _makes_item(change)}
    told: set[tuple[str, Path]] = set()
    found: dict[_Step, str] = {}
    for change in made:
        depths = range(2, len(change.key)) if items else ()
        depth = next((n for n in depths if (change.key[:n], change.removed) in items), None)
        key = change.key[:depth]
        does = "removes" if change.removed else "adds" if change.added else "replaces"
        if (does, key) not in told:
            told.add((does, key))
            tokens = from_pointer(change.pointer)[:depth]
            names = [at if at == part else "*" for at, part in zip(tokens, key, strict=False)]
            found.setdefault((does, field_name(key, to_pointer(names))), to_pointer(tokens))
    worst = sorted(found, key=lambda step: _WORST_FIRST.index(step[0]))
    return {step: found[step] for step in worst[:_MOST_OF_WRITE]}


def _makes_item(change: Change) -> bool:
    """Whether it is the name by which an item is told from others, and comes or goes with it."""
    field = change.key[-1]
    item = str(change.key[-2]) if len(change.key) > 1 else ""
    return (change.added or change.removed) and item.startswith((f"{field}#", f"{field}="))
