"""Prints for people and programs: tables, colours, -o, --sort-by, messages and questions."""

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import wraps
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast

import click
import msgspec

from genguard.formats.json_path import BadJsonPathError, JsonPath, parse_json_path, shown_value
from genguard.objects.shown import json_line, printable
from genguard.status.drawing import Cell, Row, Tone
from webhook.cli.options import ORDER, OUTPUT, SARIF, YAML, F, together
from webhook.server.flags import Parsed

_STYLES: Final[dict[Tone, dict[str, Any]]] = {
    Tone.PLAIN: {},
    Tone.FAINT: {"dim": True},
    Tone.GOOD: {"fg": "green"},
    Tone.MILD: {"fg": "yellow"},
    Tone.BAD: {"fg": "red", "bold": True},
}

_GAP: Final = "  "
_ACCOUNT: Final = re.compile(r"system:serviceaccount:(?:kube-system:)?")
"""What the names of service accounts have in common."""
_COMMAND: Final = re.compile(r"genguard explain finding/\S+")
"""A command that people copy: no line ends in it."""
_STAYS: Final = "\N{NO-BREAK SPACE}"
_LEAST: Final = 30
"""Columns in which text is still read with ease; a cell that has fewer goes beneath its row."""
_INDENT: Final = 4
Tell = Callable[[str], None]
"""Takes the messages of a verb, line by line."""


def lines(rows: Sequence[Row], *, headless: bool = False, spare: Sequence[str] = ()) -> list[str]:
    """Format rows as lines with columns and colours; click.echo removes colours for a pipe.

    On a terminal service accounts have short names, and the last cell of a row wraps. Elsewhere
    a row is one line with the whole text.

    headless  the first row takes part in the widths alone
    spare     titles of columns that a narrow terminal may lack, the least important first; a
              value of another column without room stands before the last cell
    """
    if not rows:
        return []
    room = _room()
    if room is not None:
        rows = [
            tuple(cell._replace(text=_ACCOUNT.sub("", cell.text)) for cell in row) for row in rows
        ]
    columns = max(map(len, rows))
    full = [row for row in rows if len(row) == columns]
    widths = [max(len(row[index].text) for row in full) for index in range(columns - 1)]
    if room is not None:
        titles = [cell.text for cell in rows[0]]
        few = [titles.index(title) for title in reversed(spare) if title in titles]
        needed = [at for at in range(columns - 1) if at not in few]
        kept = _fitting([*needed, *few], widths, room)
        last = [at for at in needed if at not in kept] + [-1]
        rows = [
            (
                *(row[at] for at in kept),
                row[-1]._replace(text=_GAP.join(row[at].text for at in last)),
            )
            if len(row) == columns
            else row
            for row in rows
        ]
        widths = [widths[at] for at in kept]
    return [line for row in rows[headless:] for line in _wrapped(row, widths, room)]


def _fitting(columns: Sequence[int], widths: Sequence[int], room: int) -> list[int]:
    """Return which columns fit beside each other; the most important is the first."""
    kept: list[int] = []
    for at in columns:
        if not kept or room >= widths[at] + len(_GAP):
            kept.append(at)
            room -= widths[at] + len(_GAP)
    return sorted(kept)


def print_table(rows: Sequence[Row], *, headless: bool = False, spare: Sequence[str] = ()) -> None:
    """Print rows, and nothing where there is none; `spare` as of `lines`."""
    for line in lines(rows, headless=headless, spare=spare):
        click.echo(line)


def _room() -> int | None:
    """Columns of the terminal; None where the output is no terminal."""
    return width() if is_terminal() else None


def _wrapped(row: Row, widths: Sequence[int], room: int | None) -> list[str]:
    """Return the lines of a row: the last cell goes on in its column, or else beneath the row."""
    one_line = _line(row, widths)
    *cells, last = row
    if room is None or len(click.unstyle(one_line)) <= room or not last.text:
        return [one_line]
    before = [width + len(_GAP) for _, width in zip(cells, widths, strict=False)]
    # A remark has a column of its own, and goes on a little to the right.
    at = sum(before) + (0 if len(row) > len(widths) else _INDENT)
    if cells and room - at < _LEAST:
        at = _INDENT
        begun, texts = _line(tuple(cells), widths), _texts(last.text, room - at)
    else:
        first, *rest = _texts(last.text, room - sum(before))
        begun, texts = _line((*cells, last._replace(text=first)), widths), []
        if rest:
            texts = _texts(" ".join(rest), room - at)
    return [begun, *(" " * at + _styled(text, **_STYLES[last.tone]) for text in texts)]


def _texts(text: str, room: int) -> list[str]:
    kept = _COMMAND.sub(lambda found: found[0].replace(" ", _STAYS), text)
    wrapper = textwrap.TextWrapper(
        max(room, _LEAST), break_long_words=False, break_on_hyphens=False
    )
    return [line.replace(_STAYS, " ") for line in wrapper.wrap(kept)]


def wrapped(lead: str, text: str, columns: int) -> str:
    """Wrap text behind a lead, which may have colours, with a margin as wide as the lead."""
    margin = " " * len(click.unstyle(lead))
    return lead + f"\n{margin}".join(_texts(text, columns - len(margin)))


def with_margin(lead: str, text: str) -> str:
    """Wrap text behind a lead on a terminal; elsewhere it is one line."""
    room = _room()
    return f"{lead}{text}" if room is None or not text else wrapped(lead, text, room)


def is_terminal() -> bool:
    """Whether standard output is a terminal whose cursor can be moved."""
    return sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def width() -> int:
    """Columns of the terminal; 80 where there is none."""
    return shutil.get_terminal_size().columns


def heading(text: str) -> str:
    """Format a heading."""
    return _styled(text, bold=True)


def _line(row: Row, widths: Sequence[int]) -> str:
    *cells, last = row
    padded = [
        _styled(cell.text, **_STYLES[cell.tone]) + " " * (width - len(cell.text)) + _GAP
        for cell, width in zip(cells, widths, strict=False)  # a remark has fewer
    ]
    return "".join(padded) + _styled(last.text, **_STYLES[last.tone])


def _styled(text: str, **style: Any) -> str:
    """In colour, unless NO_COLOR is set to anything (no-color.org)."""
    return text if os.environ.get("NO_COLOR") else click.style(text, **style)


def ask(question: str) -> None:
    """Go on only when the user agrees."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.ClickException("standard input is no terminal, so nobody is asked: give --yes")
    click.confirm(question, abort=True, err=True)


def tell(text: str) -> None:
    """Print a line on standard error; what moves a terminal's cursor is escaped."""
    click.echo(printable(text), err=True)


def say(text: str) -> None:
    """Print a line on standard output; what moves a terminal's cursor is escaped."""
    click.echo(printable(text))


T = TypeVar("T")


def print_checked(
    found: Sequence[T],
    row: Callable[[T], str],
    output: str,
    levels: type[StrEnum],
    level_of: Callable[[T], StrEnum],
) -> None:
    """Print what was found, a row or object each, and last how many there are of a level."""
    order = click.get_current_context().meta.get(ORDER)
    for item in _in_order(found, order, lambda item: item):
        click.echo(object_line(item) if output == "json" else row(item))
    counts = {level.value: sum(level_of(item) is level for item in found) for level in levels}
    if output == "json":
        click.echo(object_line({"type": "summary", **counts}))
    else:
        click.echo(", ".join(f"{count} {name}" for name, count in counts.items()))


def object_line(found: Any) -> str:
    """Return an object as a line of JSON or, with -o yaml, as a document."""
    is_yaml = click.get_current_context().meta.get(YAML)
    return _document(found) if is_yaml else json_line(found)


def _document(found: Any) -> str:
    import yaml  # noqa: PLC0415 - it loads for longer than many a verb runs

    made = yaml.safe_dump(msgspec.to_builtins(found), sort_keys=False, explicit_start=True)
    return str(made).rstrip("\n")


_COLUMNS: Final = "custom-columns"
_TAKES: Final = {"jsonpath": "'jsonpath={.name}'", _COLUMNS: "custom-columns=NAME:.name"}
"""The formats with something behind them, and an example of each."""
_TABLES: Final = ("table", "wide")
_FORMATS: Final = (*_TABLES, "json", "yaml", "name", *_TAKES)
_NONE: Final = "<none>"


class Format(NamedTuple):
    """How objects are printed.

    path      that of jsonpath=TEMPLATE
    columns   those of custom-columns=, by their titles
    order     the field of --sort-by
    headless  a table has no line with the titles of its columns
    """

    name: str
    path: JsonPath | None = None
    columns: tuple[tuple[str, JsonPath], ...] = ()
    order: JsonPath | None = None
    headless: bool = False

    @property
    def is_table(self) -> bool:
        """Whether it is for people: the verb draws it."""
        return self.name in _TABLES


def _read_format(text: str) -> Format:
    name, _, more = text.partition("=")
    if name in _TAKES:
        if not more:
            what = "columns" if name == _COLUMNS else "a template"
            raise ValueError(f"{name} needs {what}: -o {_TAKES[name]}")
        try:
            if name == _COLUMNS:
                return Format(name, columns=tuple(map(_column, more.split(","))))
            return Format(name, parse_json_path(more))
        except BadJsonPathError as error:
            raise ValueError(f"{name}: {error}") from error
    if text not in _FORMATS:
        raise ValueError(f"{text!r} is not one of {', '.join(map(repr, _FORMATS))}.")
    return Format(text)


def _column(text: str) -> tuple[str, JsonPath]:
    """Read TITLE:.field; raises BadJsonPathError."""
    title, _, path = text.partition(":")
    if not title or not path:
        raise BadJsonPathError(f"{text!r} is not TITLE:.field")
    return title, parse_json_path(path)


def _read_order(text: str) -> JsonPath:
    found = parse_json_path(text)
    if len(found.parts) > 1 or isinstance(found.parts[0], str):
        raise ValueError(f"{text!r} is not one field, such as .name")
    return found


_SORT_BY: Final[dict[str, Any]] = {"metavar": ".FIELD", "type": Parsed(_read_order)}
_LIST_FLAGS: Final = together(
    click.option(
        *("-o", "--output"),
        type=Parsed(_read_format),
        default=_FORMATS[0],
        show_default=True,
        metavar="|".join(f"{name}=..." if name in _TAKES else name for name in _FORMATS),
    ),
    click.option("--sort-by", "order", **_SORT_BY),
    click.option("--no-headers", "headless", is_flag=True),
)


def _keep_order(ctx: click.Context, _: click.Parameter, order: JsonPath | None) -> None:
    ctx.meta[ORDER] = order


_CHECKED_ORDER: Final = click.option(
    "--sort-by", callback=_keep_order, expose_value=False, **_SORT_BY
)
CHECKED: Final = together(OUTPUT, _CHECKED_ORDER)
"""Adds the flags of a verb that prints by `print_checked`."""
CHECKED_SARIF: Final = together(SARIF, _CHECKED_ORDER)


def lists(verb: F) -> F:
    """Add the flags of a verb that prints a list: -o, its order, its titles."""

    @wraps(verb)
    def run(*, output: Format, order: JsonPath | None, headless: bool, **flags: Any) -> Any:
        if order and flags.get("watch"):  # kubectl does not sort with -w either
            raise click.UsageError("--sort-by is of a whole list: leave out -w")
        return verb(output=output._replace(order=order, headless=headless), **flags)

    return cast("F", _LIST_FLAGS(run))


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """How a verb prints a list.

    rows   of its table
    name   what -o name prints of a line
    line   the object that is printed of an item
    parts  the items that are printed where it is no table
    alone  each item that has changed is a table of its own
    spare  the columns that a narrow terminal may lack, the least important first
    """

    output: Format
    rows: Callable[[Sequence[T]], Sequence[Row]]
    name: Callable[[Any], str]
    line: Callable[[T], Any]
    parts: Callable[[Iterable[T]], Iterable[T]] = iter
    alone: bool = False
    spare: Sequence[str] = ()

    def show(self, items: Iterable[T], *, headless: bool = False) -> None:
        """Print it once; `headless`: the titles of columns were printed before."""
        found = _in_order(items, self.output.order, self.line)
        if not self.output.is_table:
            # One after the other: a file may be longer than the memory.
            lines_of_it = map(self.line, self.parts(found))
            _print_objects(lines_of_it, self.output, self.name, headless=headless)
        elif listed := list(found):
            headless = headless or self.output.headless
            print_table(self.rows(listed), headless=headless, spare=self.spare)


class Again:
    """Shows a list after each change: what has changed in it."""

    def __init__(self) -> None:
        self._told: dict[str, Any] = {}

    def show(self, listing: Listing[T], items: Sequence[T], id_of: Callable[[Any], str]) -> None:
        """Show it once more; `id_of` tells its lines apart."""
        found = [(listing.line(diff), diff) for diff in listing.parts(items)]
        changed = [item for line, item in found if self._told.get(id_of(line)) != line]
        headless = bool(self._told)
        for batch in [[item] for item in changed] if listing.alone else [changed]:
            replace(listing, parts=iter).show(batch, headless=headless)
            headless = True
        self._told = {id_of(line): line for line, _ in found}


def _in_order(items: Iterable[T], order: JsonPath | None, line: Callable[[T], Any]) -> Iterable[T]:
    """Sort items by the field of --sort-by, as kubectl does; without one they stay as they are."""
    if order is None:
        return items
    found = [(order.values(msgspec.to_builtins(line(item))), item) for item in items]
    if found and not any(values for values, _ in found):
        raise click.ClickException("--sort-by: no object has the field")
    return [item for _, item in sorted(found, key=lambda each: _rank(each[0]))]


_SCALES: Final = (
    ("ok", "unknown", "info", "warn", "warning", "error", "fail", "critical"),
    ("possible", "likely", "certain"),
    ("Green", "Yellow", "Red"),
    ("resolved", "quiet", "open"),
)
"""Words that have a rank: the worst, or the surest, last."""
_RANKS: Final = {word: float(at) for scale in _SCALES for at, word in enumerate(scale)}


def _rank(values: Sequence[Any]) -> tuple[int, float, str]:
    """Order what is missing before numbers and words with a rank, and these before text."""
    value = values[0] if values else None
    if value is None:
        return 0, 0.0, ""
    if isinstance(value, str) and value in _RANKS:
        return 1, _RANKS[value], ""
    if isinstance(value, int | float):
        return 1, float(value), ""
    return 2, 0.0, shown_value(value)


_OBJECTS: Final[dict[str, Callable[[Any], str]]] = {"json": json_line, "yaml": _document}


def _print_objects(
    objects: Iterable[Any], output: Format, name_of: Callable[[Any], str], *, headless: bool
) -> None:
    """Print objects, one a line or a YAML document each; `name_of`: what -o name prints."""
    if output.columns:
        _print_columns(objects, output, headless=headless or output.headless)
        return
    for item in objects:
        if output.name in _OBJECTS:
            click.echo(_OBJECTS[output.name](item))
        elif output.path is not None:
            text = output.path.apply(msgspec.to_builtins(item))
            # Line ends and tabs may stand in a template.
            click.echo("".join(each if each in "\n\t" else printable(each) for each in text))
        else:
            click.echo(printable(name_of(item)))


def _print_columns(objects: Iterable[Any], output: Format, *, headless: bool) -> None:
    """Print a table with the columns of the user; nothing where there is no object."""
    titles = tuple(Cell(printable(title)) for title, _ in output.columns)
    rows = [
        tuple(Cell(_cell(path.values(found))) for _, path in output.columns)
        for found in map(msgspec.to_builtins, objects)
    ]
    for text in lines([titles, *rows] if rows else (), headless=headless):
        click.echo(text.rstrip())


def _cell(values: Sequence[Any]) -> str:
    """Return a cell as kubectl has it: several values with commas, <none> without any."""
    found = [_NONE if value is None else shown_value(value) for value in values]
    return printable(",".join(found)) if found else _NONE
