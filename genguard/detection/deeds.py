"""What each webhook does: in which share of writes it changes something, and which fields.

Where several are called for a write, each of them may have made what differs: `shared` says so.
Bounded in webhooks, kinds and fields; paths alone are kept.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

import msgspec

from genguard.admission.matching import ResourceKind
from genguard.admission.review import Operation
from genguard.detection.changes import Change
from genguard.detection.write import Write
from genguard.objects.fields import from_pointer, to_field_path

_MOST: Final = 1_000
"""Webhooks, each with one kind and operation."""
_MOST_FIELDS: Final = 30
_MOST_LEAVES: Final = 60
"""Of one write."""
_SHOWN: Final = 8
_DEPTH: Final = {"adds": 4, "replaces": 6, "removes": 6}
"""Steps of a path: what a container has that is added is not told one by one."""


class Deed(msgspec.Struct, frozen=True, rename="camel"):
    """What a webhook does to a field of any object of a kind, and in how many writes."""

    does: str
    field: str
    writes: int


class Deeds(msgspec.Struct, frozen=True, rename="camel"):
    """What a webhook does to one kind.

    called   writes that it was called for, and that were compared; changed: those of them that
             came out otherwise
    shared   the changed ones for which others were called as well
    does     the fields that it changes most often
    """

    operation: Operation
    resource: str
    called: int
    changed: int
    shared: int
    does: tuple[Deed, ...]


class _Count(msgspec.Struct, gc=False):
    called: int = 0
    changed: int = 0
    shared: int = 0
    fields: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)


class Tally:
    """Counts what webhooks do."""

    def __init__(self) -> None:
        self._counts: Final[dict[tuple[str, Operation, ResourceKind], _Count]] = {}

    def note(self, write: Write) -> None:
        """Take in a write of which it is known what was asked for."""
        names = write.called.first
        if not names or write.content.webhook is None:
            return
        made = write.all_of_webhooks() or ()
        for name in names:
            key = name, write.operation, write.kind
            count = self._counts.get(key)
            if count is None:
                if len(self._counts) >= _MOST:
                    continue
                count = self._counts[key] = _Count()
            count.called += 1
            mine = [one for one in made[:_MOST_LEAVES] if _may_have_made(write, name, one)]
            if mine:
                count.changed += 1
                count.shared += len(names) > 1 and len(mine) == len(made)
                for step in dict.fromkeys(map(_deed, mine)):
                    if step in count.fields or len(count.fields) < _MOST_FIELDS:
                        count.fields[step] += 1

    def of(self, webhook: str) -> Iterator[Deeds]:
        """Yield what a webhook (`configuration/webhook`) does to each kind."""
        for (name, operation, kind), count in self._counts.items():
            if name == webhook:
                often = count.fields.most_common(_SHOWN)
                does = tuple(Deed(*step, writes) for step, writes in often)
                counts = count.called, count.changed, count.shared
                named = f"{kind.resource}.{kind.group}".rstrip(".")
                of = f"{named}/{kind.subresource}" if kind.subresource else named
                yield Deeds(operation, of, *counts, does)


def _may_have_made(write: Write, name: str, change: Change) -> bool:
    return name in write.called.about((change.pointer,), again=False)[0]


def _deed(change: Change) -> tuple[str, str]:
    does = "removes" if change.removed else "adds" if change.added else "replaces"
    steps = ["*" if one.isdecimal() else one for one in from_pointer(change.pointer)]
    return does, to_field_path(steps[: _DEPTH[does]]).replace(".*", "[*]")
