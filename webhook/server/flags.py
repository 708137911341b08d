"""Declares command line flags as fields of a frozen class, and reads their values.

A class whose fields are made by `flag()` is the one place where a flag is declared. It gives
the options of click (`options_of`), the keys of a configuration file (`read_config`) and, with the
words of --help, the table in the documents (tools/tables.py).
"""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import Field, field, fields
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import click

from genguard.objects.shown import without_credentials

T = TypeVar("T")

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhd])")
_DURATION: Final = re.compile(rf"(?:{_PART.pattern})+")


def flag(default: Any, **option: Any) -> Any:
    """Declare the flag of a field; what it does is said in webhook/cli/verbs.txt.

    default  as it is written on the command line, or a function that returns it
    option   further arguments of click.Option
    """
    metadata = {"default": default, "option": option}
    return field(default_factory=lambda: _value(default, option.get("type")), metadata=metadata)


def _value(default: Any, kind: Any) -> Any:
    """The value of a flag that is not given."""
    given = default() if callable(default) else default
    return kind.read(given) if isinstance(kind, Parsed) and isinstance(given, str) else given


def options_of(settings: type[Any]) -> list[click.Option]:
    """The click options of a class, in the order of its fields."""
    return [
        click.Option(
            [name_of(setting), setting.name],
            default=default,
            show_default=not _is_nothing(default),
            **({"is_flag": True} if default is False else setting.metadata["option"]),
        )
        for setting in fields(settings)
        for default in (setting.metadata["default"],)
    ]


def _is_nothing(default: Any) -> bool:
    """Whether a default means that the flag does nothing, which 0 need not mean."""
    return default is None or default is False or default in ("", ())


def name_of(declared: Field[Any]) -> str:
    """The flag of a field: --secure-port for secure_port."""
    return "--" + declared.name.replace("_", "-")


def said_of(declared: Field[Any], texts: Mapping[str, str]) -> tuple[str, str]:
    """What a flag does, and its default; `texts` are of --help."""
    default = declared.metadata["default"]
    nothing = "off" if default is False else "none"
    text, _, shown = texts[name_of(declared)].removesuffix("]").partition(" [default: ")
    return text, shown or (nothing if _is_nothing(default) else f"`{default}`")


def read_config(ctx: click.Context, _: click.Parameter, path: Path | None) -> None:
    """Make the values of a YAML file the defaults of the flags that are its keys.

    The callback of the option --config. The command line wins over the file.
    """
    if path is None:
        return
    import yaml  # noqa: PLC0415 - it loads for longer than many a verb runs

    try:
        # Every value as text: 1.30 is a version and not the number 1.3.
        values = yaml.load(path.read_text("utf-8"), Loader=yaml.BaseLoader) or {}  # noqa: S506
    except OSError as error:
        raise click.BadParameter(f"{path}: {error.strerror}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise click.BadParameter(f"{path}: not YAML") from error
    if not isinstance(values, dict):
        raise click.BadParameter(f"{path}: expected flags as keys, such as 'audit-only: true'")
    flags = {
        param.opts[0].removeprefix("--"): param
        for param in ctx.command.params
        if param.expose_value
    }
    if unknown := sorted(values.keys() - flags):
        known = ", ".join(sorted(flags))
        raise click.BadParameter(f"{path}: unknown {', '.join(unknown)}; known are {known}")
    ctx.default_map = dict(ctx.default_map or {})  # there: flags before the verb
    for key, value in values.items():
        option, items = flags[key], value if isinstance(value, list) else [value]
        if not all(isinstance(item, str) for item in items):
            raise click.BadParameter(f"{path}: {option.opts[0]} takes a value or a list of them")
        given = items if option.multiple else ",".join(items)  # as on the command line
        ctx.default_map.setdefault(option.name or key, given)


class Parsed(click.ParamType[T]):
    """The type of a flag whose text a function reads; its ValueError is the error message."""

    name = "text"

    def __init__(self, read: Callable[[str], T]) -> None:
        self.read: Final = read

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> T | Any:
        """Read a text; a value that has been read already is returned as it is."""
        if not isinstance(value, str):
            return value
        try:
            return self.read(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def duration(longest: int, *, or_none: bool = False) -> Parsed[float]:
    """Seconds, written as `30s`, `5m`, `1m30s` or `30d`.

    longest  how many hours are allowed
    or_none  whether 0 is allowed
    """

    def read(text: str) -> float:
        spelled = text if text[-1:] in _UNITS else f"{text}s"
        parts = _PART.findall(spelled) if _DURATION.fullmatch(spelled) else []
        seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
        if not parts or (not seconds and not or_none) or seconds > longest * _UNITS["h"]:
            raise ValueError(f"{text!r} is not a time up to {longest}h, such as 30s or 5m")
        return seconds

    return Parsed(read)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _cidrs(text: str) -> tuple[str, ...]:
    try:
        return tuple(str(ip_network(name)) for name in _names(text))
    except ValueError as error:
        raise ValueError(f"{error}: give ranges such as 10.0.0.0/28") from error


def _url(form: str, *schemes: str, has_path: bool = True) -> Parsed[str]:
    """A URL with a host and one of the schemes; read without a slash at its end."""

    def read(text: str) -> str:
        try:
            url = urlsplit(text)
            fits = url.scheme in schemes and url.hostname and url.port != 0
        except ValueError:
            fits = False
        if not fits or url.query or url.fragment or (url.path.strip("/") and not has_path):
            raise ValueError(f"{without_credentials(text)!r} is not {form}")
        return text.rstrip("/")

    return Parsed(read)


def _listen_address(text: str) -> str:
    with suppress(ValueError):
        found = urlsplit(f"//{text}")
        if found.hostname and found.port is not None:
            return text
    raise ValueError(f"{text!r} is not ADDRESS:PORT")


NAMES: Final = Parsed(_names)
"""Names with commas between them."""
CIDRS: Final = Parsed(_cidrs)
"""Ranges of addresses, as a NetworkPolicy takes them: 10.0.0.0/28,2001:db8::/64."""
HTTPS_URL: Final = _url("https://HOST:PORT", "https", has_path=False)
ALERTMANAGER_URL: Final = _url("a URL such as http://alertmanager:9093", "http", "https")
RUNBOOK_URL: Final = _url("a URL such as https://wiki.example.org/genguard", "http", "https")
"""The URL below which each runbook is."""
LISTEN_ADDRESS: Final = Parsed(_listen_address)
FILE: Final = click.Path(dir_okay=False, path_type=Path)
FOLDER: Final = click.Path(file_okay=False, path_type=Path)
PATH: Final = click.Path(path_type=Path)
