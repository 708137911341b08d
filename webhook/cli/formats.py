"""How a verb prints its objects: -o, --sort-by and --no-headers. Tables are drawn by the verb."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import click
import msgspec
from click.shell_completion import CompletionItem

from genguard.formats.json_path import BadJsonPathError, JsonPath, parse_json_path, shown_value
from genguard.objects.shown import json_line, printable

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

_PATH: Final = "jsonpath"
_COLUMNS: Final = "custom-columns"
_TAKES: Final = {_PATH: "'jsonpath={.name}'", _COLUMNS: "custom-columns=NAME:.name"}
"""The formats with something behind them, and an example of each."""
_NONE: Final = "<none>"


class Column(NamedTuple):
    """One of the columns that a user chose."""

    title: str
    path: JsonPath


class Format(NamedTuple):
    """How objects are printed.

    path      that of jsonpath=TEMPLATE
    columns   those of custom-columns=
    order     the field of --sort-by
    headless  a table has no line with the titles of its columns
    """

    name: str
    path: JsonPath | None = None
    columns: tuple[Column, ...] = ()
    order: JsonPath | None = None
    headless: bool = False

    @property
    def is_table(self) -> bool:
        """Whether it is for people: the verb draws it."""
        return self.name not in ("json", "yaml", "name", *_TAKES)

    def listing(self, order: JsonPath | None, *, headless: bool, watch: bool) -> "Format":
        """Add the values of --sort-by and --no-headers; kubectl does not sort with -w either."""
        if order and watch:
            raise click.UsageError("--sort-by is of a whole list: leave out -w")
        return self._replace(order=order, headless=headless)


class _FormatType(click.ParamType[Format]):
    """Reads a value of -o."""

    name = "format"

    def __init__(self, names: Sequence[str]) -> None:
        self.names: Final = tuple(names)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:  # noqa: ARG002
        return "|".join(f"{one}=..." if one in _TAKES else one for one in self.names)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Format:
        if isinstance(value, Format):
            return value
        name, _, more = value.partition("=")
        if name in self.names and name in _TAKES:
            if not more:
                what = "a template" if name == _PATH else "columns"
                self.fail(f"{name} needs {what}: -o {_TAKES[name]}", param, ctx)
            try:
                if name == _COLUMNS:
                    return Format(name, columns=tuple(map(_column, more.split(","))))
                return Format(name, parse_json_path(more))
            except BadJsonPathError as error:
                self.fail(f"{name}: {error}", param, ctx)
        if value not in self.names:
            known = ", ".join(map(repr, self.names))
            self.fail(f"{value!r} is not one of {known}.", param, ctx)
        return Format(value)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        del ctx, param
        every = [f"{one}=" if one in _TAKES else one for one in self.names]
        return [CompletionItem(one) for one in every if one.startswith(incomplete)]


def _column(text: str) -> Column:
    """Read TITLE:.field; raises BadJsonPathError."""
    title, _, path = text.partition(":")
    if not title or not path:
        raise BadJsonPathError(f"{text!r} is not TITLE:.field")
    return Column(title, parse_json_path(path))


def output_option(*names: str, text: str) -> Callable[[F], F]:
    """Make -o, with these formats; the first is the default."""
    return click.option(
        "-o",
        "--output",
        type=_FormatType(names),
        default=names[0],
        show_default=True,
        help=text,
    )


def _read_order(_: click.Context, __: click.Parameter, text: str | None) -> JsonPath | None:
    if text is None:
        return None
    try:
        found = parse_json_path(text)
    except BadJsonPathError as error:
        raise click.BadParameter(str(error)) from error
    if len(found.parts) > 1 or isinstance(found.parts[0], str):
        raise click.BadParameter(f"{text!r} is not one field, such as .name")
    return found


SORT_BY: Final = click.option(
    "--sort-by",
    "order",
    metavar=".FIELD",
    callback=_read_order,
    help="In the order of a field of -o json: numbers by size, text by letters; "
    "first those without it.",
)
NO_HEADERS: Final = click.option(
    "--no-headers",
    "headless",
    is_flag=True,
    help="Print no titles of columns.",
)


def in_order(items: Iterable[T], order: JsonPath | None, shown: Callable[[T], Any]) -> Iterable[T]:
    """Sort items by the field of --sort-by, as kubectl does; without one they stay as they are.

    shown  returns the object that is printed for an item
    """
    if order is None:
        return items
    found = [(order.values(msgspec.to_builtins(shown(one))), one) for one in items]
    if found and not any(values for values, _ in found):
        raise click.ClickException("--sort-by: no object has the field")
    return [one for _, one in sorted(found, key=lambda each: _rank(each[0]))]


def _rank(values: Sequence[Any]) -> tuple[int, float, str]:
    """Order what is missing before numbers, and these before text."""
    value = values[0] if values else None
    if value is None:
        return 0, 0.0, ""
    if isinstance(value, int | float):
        return 1, float(value), ""
    return 2, 0.0, shown_value(value)


def print_objects(
    objects: Iterable[Any],
    output: Format,
    name_of: Callable[[Any], str] = str,
    *,
    headless: bool = False,
) -> None:
    """Print objects, one a line or a YAML document each.

    name_of   what -o name prints
    headless  the titles of columns were printed before
    """
    if output.name == "yaml":
        import yaml  # noqa: PLC0415 - it loads for longer than many a verb runs

        found = [msgspec.to_builtins(one) for one in objects]
        text = yaml.safe_dump_all(found, sort_keys=False, explicit_start=True)
        click.echo(text if found else "", nl=False)
        return
    if output.columns:
        _print_columns(objects, output, headless=headless or output.headless)
        return
    for one in objects:
        if output.name == "json":
            click.echo(json_line(one))
        elif output.path is not None:
            click.echo(_safe(output.path.apply(msgspec.to_builtins(one))))
        else:
            click.echo(printable(name_of(one)))


def _print_columns(objects: Iterable[Any], output: Format, *, headless: bool) -> None:
    """Print a table with the columns of the user; nothing where there is no object."""
    from genguard.status.drawing import Cell  # noqa: PLC0415 - not every verb draws
    from webhook.cli.output import lines  # noqa: PLC0415

    titles = tuple(Cell(printable(one.title)) for one in output.columns)
    rows = [
        tuple(Cell(_cell(one.path.values(found))) for one in output.columns)
        for found in map(msgspec.to_builtins, objects)
    ]
    for text in lines([titles, *rows], headless=headless) if rows else ():
        click.echo(text.rstrip())


def _cell(values: Sequence[Any]) -> str:
    """Return a cell as kubectl has it: several values with commas, <none> without any."""
    found = [_NONE if one is None else shown_value(one) for one in values]
    return printable(",".join(found)) if found else _NONE


def _safe(text: str) -> str:
    """Escape what moves the cursor; line ends and tabs may stand in a template."""
    return "".join(sign if sign in "\n\t" else printable(sign) for sign in text)
