"""Draws a report: as a table, or as the object's YAML with a comment on each line."""

import re
from collections.abc import Iterator, Mapping
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
_ANY_WIDTH: Final = 1_000_000
_TEXT: Final = "tag:yaml.org,2002:str"
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
    Of the document only what is at, above or below a place is shown.
    """
    comments = {one.field: _comment(one) for one in found.fields}
    shown = _cut(_shown(document), (), below)
    text = yaml.dump(shown, Dumper=_Dumper, width=_ANY_WIDTH, allow_unicode=True)
    lines = ["".join(map(_escaped, line)) for line in text.removesuffix("\n").split("\n")]
    places = dict(_lines_of(yaml.compose(text, Loader=yaml.CSafeLoader), _shown(document), below))
    room = min(max(map(len, lines), default=0), _WIDEST)
    for number, line in enumerate(lines):
        comment = comments.get(show(places[number]), "") if number in places else ""
        yield f"{line:<{room}}  # {comment}" if comment else line


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


def _cut(value: Any, place: Place, below: Place) -> Any:
    """Return what of a value is at, above or below a place."""
    kept = [(at[-1], _cut(one, at, below)) for at, one in _on(value, place, below)]
    if isinstance(value, dict):
        return dict(kept)
    return [one for _, one in kept] if isinstance(value, list) else value


def _lines_of(
    node: Any, value: Any, below: Place, place: Place = ()
) -> Iterator[tuple[int, Place]]:
    """Yield the line of each leaf of a value, of which this node is what was written."""
    found = list(_on(value, place, below))
    if not found:
        yield node.start_mark.line, place
    elif isinstance(value, dict):
        nodes = {key.value: one for key, one in node.value}
        for at, one in found:
            yield from _lines_of(nodes[at[-1]], one, below, at)
    else:
        for (at, one), item in zip(found, node.value, strict=True):
            yield from _lines_of(item, one, below, at)


def _on(value: Any, place: Place, below: Place) -> Iterator[tuple[Place, Any]]:
    """Yield what is directly in a value and at, above or below a place."""
    for step, one in children(value, place):
        at = (*place, step)
        if at[: len(below)] == below[: len(at)]:
            yield at, one


class _Dumper(yaml.SafeDumper):
    """Writes texts as kubectl does."""

    def ignore_aliases(self, data: object) -> bool:
        """Nothing is written as a reference to what is above it."""
        del data
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    quoted = None if value.isprintable() else '"'
    return dumper.represent_scalar(_TEXT, value, style="|" if _fits_block(value) else quoted)


_Dumper.add_representer(str, _text)


def _fits_block(value: str) -> bool:
    """Whether a text of several lines can be written as kubectl does, and is read back the same."""
    lines = value.removesuffix("\n").split("\n")
    return (
        "\n" in value
        and all(line.isprintable() and line == line.rstrip() for line in lines)
        and bool(_PLAIN_BLOCK.match(value))
        and bool(lines[-1])
    )


def _escaped(sign: str) -> str:
    """Return a sign that moves a cursor as YAML has it in quotes, and any other as it is."""
    return sign if sign.isprintable() else f"\\U{ord(sign):08X}"
