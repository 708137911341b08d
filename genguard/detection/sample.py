"""What happened in one write, field by field: before, asked, left and stored.

before  the value that was stored before the write
asked   what the requester sent
left    what the other webhooks left of it
stored  what came out in the end, after genguard and the API server

A finding keeps one such sample, encoded once and never changed. A value that must not be shown
(genguard/detection/values.py) is shown as a letter: one letter in one field is one value. A digest
would let readers test guesses of a value.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, groupby
from typing import Any, Final

import msgspec

from genguard.admission.review import Operation
from genguard.detection.changes import Change
from genguard.detection.diff import PartDiffs
from genguard.detection.metadata import FINALIZERS, OWNERS
from genguard.detection.values import Digest, is_condition_type
from genguard.detection.write import ObjectKey, Write
from genguard.objects.fields import Path, from_pointer
from genguard.objects.metadata import rfc3339
from genguard.objects.shown import listed

MOST_FIELDS: Final = 20
"""Of one sample."""
MOST_BYTES: Final = 8 * 1024
"""Of one encoded sample. Fields that have no room are counted."""
_BYTES_OF_HEAD: Final = 600
_MOST_NAMED: Final = 3
"""Fields that a message names."""
_SETS: Final = frozenset({f"/metadata/{FINALIZERS}", f"/metadata/{OWNERS}"})


class ShownValue(msgspec.Struct, frozen=True, omit_defaults=True):
    """A value in JSON: the value itself, or the letter of a hidden one, or that it is absent."""

    value: Any = msgspec.UNSET
    hidden: str = ""
    absent: bool = False

    @property
    def text(self) -> str:
        """As people read it."""
        if self.absent:
            return "absent"
        if self.hidden:
            return f"value {self.hidden}"
        return msgspec.json.encode(self.value).decode()


class ShownField(msgspec.Struct, frozen=True, omit_defaults=True):
    """One field in JSON; what is not known is left out."""

    field: str
    path: str
    before: ShownValue | None = None
    asked: ShownValue | None = None
    left: ShownValue | None = None
    stored: ShownValue | None = None

    @property
    def states(self) -> tuple[ShownValue | None, ...]:
        """The four values, in the order of time."""
        return self.before, self.asked, self.left, self.stored

    @property
    def text(self) -> str:
        """The values in the order of time, each where it is another than the one before."""
        return " → ".join(state.text for state, _ in groupby(filter(None, self.states)))

    @property
    def is_changed_by_webhooks(self) -> bool:
        """Whether other webhooks left another value than was asked for."""
        return None not in (self.asked, self.left) and self.asked != self.left


class PatchedField(msgspec.Struct, frozen=True, omit_defaults=True):
    """One operation of what other webhooks did together; `hidden` as in ShownValue."""

    op: str
    path: str
    value: Any = msgspec.UNSET
    hidden: str = ""


class WriteDiff(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A sample in JSON; `patch` turns what was asked into what was left."""

    time: str
    user: str
    field_manager: str
    fields: tuple[ShownField, ...]
    patch: tuple[PatchedField, ...] = ()
    more: int = 0

    @property
    def has_hidden_values(self) -> bool:
        """Whether letters stand for some of the values."""
        return any(
            state.hidden for field in self.fields for state in field.states if state is not None
        )


_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(WriteDiff)


Letters = dict[Path, dict[Digest, str]]
"""Names of hidden values, by field: in one field, A for the first value, B for another one."""
_Cell = tuple[Digest | None, str | None]
"""A value: its digest, None where it is absent, and its JSON where it may be shown."""


def _shown(key: Path, cell: _Cell | None, letters: Letters) -> ShownValue | None:
    """Return what is shown of a value; None where it is not known."""
    if cell is None:
        return None
    digest, text = cell
    if digest is None:
        return ShownValue(absent=True)
    if text is not None:
        return ShownValue(msgspec.json.decode(text))
    known = letters.setdefault(key, {})
    rounds, number = divmod(len(known), 26)
    letter = chr(ord("A") + number) * (rounds + 1)
    return ShownValue(hidden=known.setdefault(digest, letter))


def has_all_diffs(write: Write) -> bool:
    """Whether all four states of a write are known."""
    content = write.content
    diffs = content.requested, content.webhook, content.admitted
    return write.has_outcome and all(diff is not None and diff.is_complete for diff in diffs)


def sample_of(write: Write, first: Sequence[str]) -> bytes | None:
    """Return the encoded sample of a write; None where no field of it was compared.

    first  JSON Pointers: these fields, and what is below them, come first
    """
    pointers = frozenset(first)
    found = sorted(values_of(write, {}), key=lambda field: _rank(field, pointers))
    sizes = accumulate(len(_encoder.encode(field)) for field in found[:MOST_FIELDS])
    room = MOST_BYTES - _BYTES_OF_HEAD
    kept = [field for field, size in zip(found, sizes, strict=False) if size <= room]
    if not kept:
        return None
    time, by, more = rfc3339(write.time), write.requester, len(found) - len(kept)
    return _encoder.encode(WriteDiff(time, by.user[:256], by.manager, tuple(kept), more=more))


def _rank(field: ShownField, first: frozenset[str]) -> tuple[int, str]:
    rank = 1 if field.is_changed_by_webhooks else 2
    return 0 if is_at_or_below(field.path, first) else rank, field.path


def is_at_or_below(pointer: str, first: frozenset[str]) -> bool:
    """Whether a pointer, or the pointer of something that it is in, is among `first`.

    Up to 2,000 fields are held against as many pointers: each is looked up, not compared with all.
    """
    while pointer not in first:
        pointer, slash, _ = pointer.rpartition("/")
        if not slash:
            return False
    return True


def values_of(write: Write, letters: Letters) -> Iterator[ShownField]:
    """Yield each field that differs in a write, at any time, with its four values.

    All metadata of a creation would differ: only what webhooks changed of it is shown.
    """
    known: set[Path] = set()
    is_creation, made = write.operation is Operation.CREATE, write.metadata.webhook or ()
    told = {change.key for change in made} if is_creation else None
    for part, only in ((write.content, None), (write.metadata, told)):
        for key, pointer, cells in _rows(part, is_stored=write.has_outcome):
            # The annotations of a Deployment are in both parts.
            if key not in known and (only is None or key in only):
                known.add(key)
                states = [_shown(key, cell, letters) for cell in cells]
                yield ShownField(field_name(key, pointer), pointer, *states)


def _rows(
    part: PartDiffs, *, is_stored: bool
) -> Iterator[tuple[Path, str, tuple[_Cell | None, ...]]]:
    """Yield each leaf that differs with its values before, asked, left and stored."""
    diffs = part.admitted, part.requested, part.webhook, part.reinvocation
    came, asked, *rounds = sides = [
        None if diff is None or not diff.is_complete else {change.key: change for change in diff}
        for diff in diffs
    ]
    for key in dict.fromkeys(chain.from_iterable(side or () for side in sides)):
        # The first two start at what was stored. A leaf that neither names came as it was stored.
        at = next(side[key] for side in sides if side and key in side)
        before = at.before, at.shown_before
        sent = left = _next(asked, key, before)
        for changes in rounds:
            left = _next(changes, key, left)
        yield key, at.pointer, (before, sent, left, _next(came, key, before) if is_stored else None)


def _next(side: dict[Path, Change] | None, key: Path, before: _Cell | None) -> _Cell | None:
    """Return the value after one comparison; a leaf that it does not name stays as it was."""
    if side is None:
        return None
    return (side[key].after, side[key].shown_after) if key in side else before


def field_name(key: Path, pointer: str) -> str:
    """Return a field as people read it, conditions by type: `status.conditions[Ready].reason`."""
    text = ""
    # An item of a set ends it: its index means nothing.
    for part, at in zip(key, from_pointer(pointer), strict=False):
        kind = str(part).removeprefix("type=")
        if part != at:
            is_named = kind != str(part) and is_condition_type(kind)
            text += f"[{kind if is_named else at}]"
        elif at.replace("-", "").replace("_", "").isalnum():
            text += f".{at}"
        else:
            text += f"[{msgspec.json.encode(at).decode()}]"
    return text.removeprefix(".")


def field_names(changes: Iterable[Change], of: ObjectKey) -> str:
    """Return the fields of changes for a message: `spec.replicas`, `a, b and 3 more`."""
    names = [field_name(change.key, of.owned(change.pointer)) for change in changes]
    return listed(list(dict.fromkeys(names)), _MOST_NAMED)


def shown_diff(raw: bytes) -> WriteDiff | None:
    """Return an encoded sample with its patch; None for one of another version, or damaged."""
    try:
        sample = _decoder.decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    changed = [field for field in sample.fields if field.is_changed_by_webhooks]
    # No operation can be told for an item of a set.
    patch = tuple(_operation(field) for field in changed if field.path not in _SETS)
    return msgspec.structs.replace(sample, patch=patch)


def _operation(field: ShownField) -> PatchedField:
    made = field.left
    if made is None or made.absent:
        return PatchedField("remove", field.path)
    op = "add" if field.asked is not None and field.asked.absent else "replace"
    return PatchedField(op, field.path, made.value, made.hidden)
