"""Draws a report: as a table, or as the object's YAML with a comment on each line."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import yaml

from genguard.blame.places import Place, children, show
from genguard.blame.report import Blame, BlamedField, Writer
from genguard.objects.shown import printable
from genguard.status.drawing import Cell, Row, Tone

_NOBODY: Final = "-"
HIDDEN: Final = "<not shown>"
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_OF_SECRETS: Final = frozenset({"data", "stringData"})
_WIDEST: Final = 60
_PLAIN_BLOCK: Final = re.compile(r"\S")
_TONES: Final = {"deleted": Tone.BAD, "deletion asked for": Tone.BAD, "scaled": Tone.MILD}


def table(found: Blame) -> list[Row]:
    """Return a header and a row for each field; then what was done to the whole object."""
    rows: list[Row] = []
    if found.fields:
        header = ("FIELD", "LAST WRITER", "WHEN", "THROUGH / CHANGED BY")
        rows.append(tuple(map(Cell, header)))
        rows += map(_row, found.fields)
    for one in found.deeds:
        tone = _TONES.get(one.what, Tone.PLAIN)
        when = one.by.time or _NOBODY
        text = "; ".join(filter(None, (one.by.through, one.text)))
        rows.append(
            (
                Cell(printable(f"({one.what})"), tone),
                Cell(printable(one.by.name), tone),
                Cell(printable(when)),
                Cell(printable(text)),
            )
        )
    return rows


def _row(one: BlamedField) -> Row:
    tone = Tone.BAD if any(each.finding for each in one.changed_by) else Tone.PLAIN
    name = one.writer.name if one.writer else _NOBODY
    return (
        Cell(printable(one.field), Tone.PLAIN if one.writer else Tone.FAINT),
        Cell(printable(name)),
        Cell(printable(_when(one.writer)), Tone.FAINT),
        Cell(printable(_way(one)), tone),
    )


def _when(writer: Writer | None) -> str:
    if writer is None or not writer.time:
        return _NOBODY
    return writer.time if writer.exact else f"~{writer.time}"


def _way(one: BlamedField) -> str:
    """Return how a value came, and who changed it on its way."""
    parts = ["removed by"] if one.removed and not one.changed_by else []
    parts += [one.writer.through] if one.writer else []
    done = "removed" if one.removed else "changed"
    parts += [f"{done} by {each.label}" for each in one.changed_by]
    parts += [f"also {each.name} ({each.through})" for each in one.also]
    parts += [f"finding {each}" for each in one.findings]
    return "; ".join(filter(None, parts)) or _NOBODY


def annotated(found: Blame, document: Mapping[str, Any], below: Place = ()) -> Iterator[str]:
    """Yield the object's YAML, a comment behind each line with who wrote it.

    It stays YAML that can be applied. managedFields are left out, and the contents of a Secret.
    """
    comments = {one.field: _comment(one) for one in found.fields}
    lines = list(_lines(_shown(document), below))
    room = min(max((len(text) for text, _ in lines), default=0), _WIDEST)
    for text, place in lines:
        comment = comments.get(show(place), "") if place is not None else ""
        yield f"{text:<{room}}  # {comment}" if comment else text


def _comment(one: BlamedField) -> str:
    who = one.writer.name if one.writer else "nobody owns it"
    when = _when(one.writer) if one.writer else ""
    return printable("  ".join(filter(None, (who, when, _way(one) if one.writer else ""))))


def _shown(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy without managedFields, and without what a Secret holds."""
    shown = dict(document)
    metadata = shown.get("metadata")
    if isinstance(metadata, dict):
        metadata = {key: one for key, one in metadata.items() if key != "managedFields"}
        shown["metadata"] = metadata
    if shown.get("kind") != "Secret":
        return shown
    for key in _OF_SECRETS & shown.keys():
        held = shown[key]
        shown[key] = dict.fromkeys(held, HIDDEN) if isinstance(held, dict) else HIDDEN
    notes = metadata.get("annotations") if isinstance(metadata, dict) else None
    if isinstance(notes, dict) and isinstance(metadata, dict) and _LAST_APPLIED in notes:
        metadata["annotations"] = {**notes, _LAST_APPLIED: HIDDEN}
    return shown


_Line = tuple[str, Place | None]
"""A line, and the place whose comment it gets; None for the rest of a text of several lines."""


def _lines(document: Any, below: Place) -> Iterator[_Line]:
    """Yield the lines of a document, of which only what is at, above or below a place."""
    yield from _mapping(document, (), 0, below)


def _is_on(place: Place, below: Place) -> bool:
    return place[: len(below)] == below[: len(place)]


def _mapping(value: Mapping[str, Any], place: Place, indent: int, below: Place) -> Iterator[_Line]:
    for key in sorted(value):
        deeper = (*place, key)
        if _is_on(deeper, below):
            yield from _entry(f"{' ' * indent}{_scalar(key)}:", value[key], deeper, indent, below)


def _entry(lead: str, value: Any, place: Place, indent: int, below: Place) -> Iterator[_Line]:
    if isinstance(value, dict) and value:
        yield lead, None
        yield from _mapping(value, place, indent + 2, below)
    elif isinstance(value, list) and value:
        yield lead, None
        yield from _sequence(value, place, indent, below)
    else:
        yield from _value(lead, value, place, indent + 2)


def _sequence(value: Sequence[Any], place: Place, indent: int, below: Place) -> Iterator[_Line]:
    for step, item in children(list(value), place):
        deeper = (*place, step)
        if not _is_on(deeper, below):
            continue
        lead = f"{' ' * indent}-"
        if isinstance(item, dict | list) and item:
            nested = (
                _mapping(item, deeper, indent + 2, below)
                if isinstance(item, dict)
                else _sequence(item, deeper, indent + 2, below)
            )
            first = True
            for text, owner in nested:
                yield f"{lead} {text[indent + 2 :]}" if first else text, owner
                first = False
        else:
            yield from _value(lead, item, deeper, indent + 2)


def _value(lead: str, value: Any, place: Place, indent: int) -> Iterator[_Line]:
    if isinstance(value, str) and _fits_block(value):
        chomp = "" if value.endswith("\n") else "-"
        yield f"{lead} |{chomp}", place
        for line in value.removesuffix("\n").split("\n"):
            yield f"{' ' * indent}{line}" if line else "", None
    else:
        yield f"{lead} {_scalar(value)}", place


def _fits_block(value: str) -> bool:
    """Whether a text of several lines can be written as kubectl does, and is read back the same."""
    lines = value.removesuffix("\n").split("\n")
    return (
        "\n" in value
        and all(line.isprintable() and line == line.rstrip() for line in lines)
        and bool(_PLAIN_BLOCK.match(value))
        and bool(lines[-1])
    )


def _scalar(value: Any) -> str:
    is_plain = not isinstance(value, str) or value.isprintable()
    text = yaml.safe_dump(
        value,
        default_flow_style=True,
        default_style=None if is_plain else '"',
        width=1_000_000,
        allow_unicode=is_plain,  # what moves a cursor is escaped
    )
    return str(text).removesuffix("\n").removesuffix("\n...").removesuffix("...").rstrip("\n")
