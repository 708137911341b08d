"""Draws a report: as a table, or as the object's YAML with a comment on each line."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml

from genguard.blame.places import Place, children, choose, leaves, show
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
        header = ("FIELD", "LAST WRITER", "WHEN", "THROUGH / CHANGED BY")
        rows.append(tuple(map(Cell, header)))
        rows += map(_row, found.fields)
    for one in found.deeds:
        tone = _TONES.get(one.what, Tone.PLAIN)
        text = "; ".join(filter(None, (one.by.through, one.text)))
        named = [Cell(printable(each), tone) for each in (f"({one.what})", one.by.name)]
        rows.append((*named, *(Cell(printable(each)) for each in (one.by.time or _NOBODY, text))))
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


def annotated(found: Blame, document: Mapping[str, Any], field: str = "") -> Iterator[str]:
    """Yield the object's YAML, a comment behind each line with who wrote it.

    It stays YAML that can be applied. managedFields are left out, and the contents of a Secret.
    Of the document only what `field` means is shown. Raises NoSuchFieldError.
    """
    shown = _shown(document)
    places = choose(field, [place for place, _ in leaves(shown)])
    text = yaml.dump(
        _cut(shown, (), {one[:end] for one in places for end in range(len(one) + 1)}),
        Dumper=_Dumper,
        width=_ANY_WIDTH,
        allow_unicode=True,
        sort_keys=False,
    )
    lines = ["".join(map(_escaped, line)) for line in text.removesuffix("\n").split("\n")]
    nodes = _leaf_nodes(yaml.compose(text, Loader=yaml.CSafeLoader))
    comments = {one.field: _comment(one) for one in found.fields}
    of_line = {
        node.start_mark.line: comments.get(show(place), "")
        for node, place in zip(nodes, places, strict=True)
    }
    room = min(max(map(len, lines), default=0), _WIDEST)
    for number, line in enumerate(lines):
        comment = of_line.get(number)
        yield f"{line:<{room}}  # {comment}" if comment else line


def _comment(one: BlamedField) -> str:
    if one.writer is None:
        return "nobody owns it"
    return printable("  ".join((one.writer.name, _when(one.writer), _way(one))))


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


def _cut(value: Any, place: Place, kept: set[Place]) -> Any:
    """Return what of a value is at a place that is kept."""
    below = [
        (step, _cut(one, (*place, step), kept))
        for step, one in children(value, place)
        if (*place, step) in kept
    ]
    if isinstance(value, dict):
        return dict(below)
    return [one for _, one in below] if isinstance(value, list) else value


def _leaf_nodes(node: Any) -> Iterator[Any]:
    """Yield what was written of each leaf, in order."""
    if not node.value or isinstance(node, yaml.ScalarNode):
        yield node
    for one in node.value if not isinstance(node, yaml.ScalarNode) else ():
        yield from _leaf_nodes(one[1] if isinstance(node, yaml.MappingNode) else one)


class _Dumper(yaml.SafeDumper):
    """Writes texts as kubectl does."""

    def ignore_aliases(self, data: object) -> bool:
        """Nothing is written as a reference to what is above it."""
        del data
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    is_plain = value.replace("\n", "").isprintable()
    style = '"' if not is_plain else "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def _escaped(sign: str) -> str:
    """Return a sign that moves a cursor as YAML has it in quotes, and any other as it is."""
    return sign if sign.isprintable() else f"\\U{ord(sign):08X}"
