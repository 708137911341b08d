"""`--config FILE`: YAML with flags as keys, each of them a default of its flag."""

from pathlib import Path
from typing import Any

import click
import yaml


def read_config(ctx: click.Context, _: click.Parameter, path: Path | None) -> Path | None:
    """Make the file's values the flags' defaults: what is on the command line wins."""
    if path is None:
        return None
    try:
        # Every value as the text it is: 1.30 is a version and not the number 1.3.
        values = yaml.load(path.read_text("utf-8"), Loader=yaml.BaseLoader) or {}  # noqa: S506
    except OSError as error:
        raise click.BadParameter(f"{path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"{path}: not YAML") from error
    names = {p.opts[0].removeprefix("--"): p for p in ctx.command.params if p.name}
    if not isinstance(values, dict):
        raise click.BadParameter(f"{path}: expected flags as keys, such as 'audit-only: true'")
    unknown = sorted(str(key) for key in values if key not in names or key == "config")
    if unknown:
        known = ", ".join(sorted(name for name in names if name != "config"))
        raise click.BadParameter(f"{path}: unknown {', '.join(unknown)}; known are {known}")
    defaults = {names[key].name: _given(path, names[key], value) for key, value in values.items()}
    ctx.default_map = {**(ctx.default_map or {}), **defaults}
    return path


def _given(path: Path, parameter: click.Parameter, value: Any) -> Any:
    """A value as the command line would give it: a list is a,b or the flag repeated."""
    items = value if isinstance(value, list) else [value]
    if not all(isinstance(one, str) for one in items):
        raise click.BadParameter(f"{path}: {parameter.opts[0]} takes a value or a list of them")
    return items if parameter.multiple else ",".join(items)
