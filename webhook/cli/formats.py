"""What `-o` chooses: how a verb prints its objects. Tables are drawn by the verb itself."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import click
import msgspec
import yaml
from click.shell_completion import CompletionItem

from genguard.formats.json_path import BadJsonPathError, JsonPath, parse_json_path
from genguard.objects.shown import json_line, printable

F = TypeVar("F", bound=Callable[..., Any])

_PATH: Final = "jsonpath"
_PREFIX: Final = f"{_PATH}="


class Format(NamedTuple):
    """One value of -o; `path` is that of jsonpath=TEMPLATE."""

    name: str
    path: JsonPath | None = None

    @property
    def is_table(self) -> bool:
        """Whether it is for people: the verb draws it."""
        return self.name not in ("json", "yaml", "name", _PATH)


class _FormatType(click.ParamType[Format]):
    """Reads a value of -o."""

    name = "format"

    def __init__(self, names: Sequence[str]) -> None:
        self.names: Final = tuple(names)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:  # noqa: ARG002
        return "|".join(f"{one}=TEMPLATE" if one == _PATH else one for one in self.names)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Format:
        if isinstance(value, Format):
            return value
        if _PATH in self.names and value.startswith(_PREFIX):
            try:
                return Format(_PATH, parse_json_path(value.removeprefix(_PREFIX)))
            except BadJsonPathError as error:
                self.fail(f"{_PATH}: {error}", param, ctx)
        if value == _PATH and _PATH in self.names:
            self.fail(f"{_PATH} needs a template: -o '{_PREFIX}{{.name}}'", param, ctx)
        if value not in self.names:
            known = ", ".join(map(repr, self.names))
            self.fail(f"{value!r} is not one of {known}.", param, ctx)
        return Format(value)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        del ctx, param
        every = [_PREFIX if one == _PATH else one for one in self.names]
        return [CompletionItem(one) for one in every if one.startswith(incomplete)]


def output_option(*names: str, text: str) -> Callable[[F], F]:
    """Make -o, with these formats; the first is the default."""
    return click.option(
        "-o",
        "output",
        type=_FormatType(names),
        default=names[0],
        show_default=True,
        help=text,
    )


def print_objects(
    objects: Iterable[Any], output: Format, name_of: Callable[[Any], str] = str
) -> None:
    """Print objects, one a line or a YAML document each. `name_of`: what -o name prints."""
    if output.name == "yaml":
        found = [msgspec.to_builtins(one) for one in objects]
        text = yaml.safe_dump_all(found, sort_keys=False, explicit_start=True)
        click.echo(text if found else "", nl=False)
        return
    for one in objects:
        if output.name == "json":
            click.echo(json_line(one))
        elif output.path is not None:
            click.echo(_safe(output.path.apply(msgspec.to_builtins(one))))
        else:
            click.echo(printable(name_of(one)))


def _safe(text: str) -> str:
    """Escape what moves the cursor; line ends and tabs may stand in a template."""
    return "".join(sign if sign in "\n\t" else printable(sign) for sign in text)
