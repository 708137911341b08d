"""Draws a report: as a table, or as the object's YAML with a comment on each line."""

from collections.abc import Container, Iterator, Mapping
from typing import Any, Final

import yaml

from genguard.blame.field_paths import FieldPath, Item, children, choose, leaves, show
from genguard.blame.report import Blame, BlamedField, Writer
from genguard.objects.shown import printable
from genguard.status.drawing import Cell, Row, Tone

_NOBODY: Final = "-"
HIDDEN: Final = "<not shown>"
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_WIDEST: Final = 60
_ANY_WIDTH: Final = 1_000_000
_TONES: Final = {"deleted": Tone.BAD, "deletion asked for": Tone.BAD, "scaled": Tone.MILD}


def table(found: Blame) -> list[Row]:
    """Return a header and a row for each field; then what was done to the whole object."""
    rows: list[Row] = []
    if found.fields:
        rows.append(tuple(map(Cell, ("FIELD", "LAST WRITER", "WHEN", "THROUGH / CHANGED BY"))))
        rows += map(_row, found.fields)
    for action in found.actions:
        tone, by = _TONES.get(action.what, Tone.PLAIN), action.by
        text = "; ".join(filter(None, (by.through, action.text)))
        named = [Cell(printable(each), tone) for each in (f"({action.what})", by.name)]
        rows.append((*named, *(Cell(printable(each)) for each in (by.time or _NOBODY, text))))
    return rows


def _row(field: BlamedField) -> Row:
    tone = Tone.BAD if any(each.finding for each in field.changed_by) else Tone.PLAIN
    name = field.writer.name if field.writer else _NOBODY
    return (
        Cell(printable(field.field), Tone.PLAIN if field.writer else Tone.FAINT),
        Cell(printable(name)),
        Cell(printable(_when(field.writer)), Tone.FAINT),
        Cell(printable(_way(field)), tone),
    )


def _when(writer: Writer | None) -> str:
    if writer is None or not writer.time:
        return _NOBODY
    return writer.time if writer.exact else f"~{writer.time}"


def _way(field: BlamedField) -> str:
    """Return how a value came, and who changed it on its way."""
    parts = ["removed by"] if field.removed and not field.changed_by else []
    parts += [field.writer.through] if field.writer else []
    done = "removed" if field.removed else "changed"
    parts += [f"{done} by {each.label}" for each in field.changed_by]
    parts += [f"also {each.name} ({each.through})" for each in field.also]
    parts += [f"finding {each}" for each in field.findings]
    return "; ".join(filter(None, parts)) or _NOBODY


def annotated(found: Blame, document: Mapping[str, Any], field: str = "") -> Iterator[str]:
    """Yield the object's YAML, a comment behind each line with who wrote it.

    It stays YAML that can be applied. managedFields are left out, and the contents of a Secret.
    Only what `field` means is shown. Raises NoSuchFieldError.
    """
    shown = _shown(document)
    paths = choose(field, [path for path, _ in leaves(shown)])
    kept = {path[:end] for path in paths for end in range(len(path) + 1)}
    comments = {field.field: _comment(field) for field in found.fields}
    lines = list(_lines(shown, (), kept))
    room = min(max((len(text) for text, _ in lines), default=0), _WIDEST)
    for text, path in lines:
        comment = comments.get(show(path))
        yield f"{text:<{room}}  # {comment}" if comment else text


def _comment(field: BlamedField) -> str:
    if field.writer is None:
        return "nobody owns it"
    return printable("  ".join((field.writer.name, _when(field.writer), _way(field))))


def _shown(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy without managedFields, and without what a Secret holds."""
    shown = dict(document)
    metadata = shown.get("metadata")
    if isinstance(metadata, dict):
        shown["metadata"] = metadata = dict(metadata)
        metadata.pop("managedFields", None)
    if shown.get("kind") == "Secret":
        for key in ("data", "stringData"):
            if isinstance(held := shown.get(key), dict):
                shown[key] = dict.fromkeys(held, HIDDEN)
        if isinstance(metadata, dict) and _LAST_APPLIED in (metadata.get("annotations") or ()):
            metadata["annotations"] = {**metadata["annotations"], _LAST_APPLIED: HIDDEN}
    return shown


def _lines(
    value: Any, path: FieldPath, kept: Container[FieldPath]
) -> Iterator[tuple[str, FieldPath]]:
    """Yield the lines of YAML for what is kept of a value, each with its place."""
    below = [(step, child) for step, child in children(value, path) if (*path, step) in kept]
    if not below:
        yield _scalar(value), path
    for step, child in below:
        at = (*path, step)
        first, others = ("- ", "  ") if isinstance(step, Item) else (f"{_scalar(step)}: ", "  ")
        if child and isinstance(child, list | dict) and not isinstance(step, Item):
            yield first.rstrip(), path
            first = others
        for text, where in _lines(child, at, kept):
            yield f"{first}{text}", where
            first = others


def _scalar(value: Any) -> str:
    """Return a value as YAML of one line; nothing in it moves a cursor."""
    is_plain = not isinstance(value, str) or value.isprintable()
    style = None if is_plain else '"'
    text = yaml.safe_dump(value, default_style=style, width=_ANY_WIDTH, allow_unicode=is_plain)
    return text.removesuffix("\n").removesuffix("\n...")
