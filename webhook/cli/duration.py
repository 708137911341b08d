"""Times on the command line, as `30s`, `5m`, `1m30s` and `30d`."""

import re
from collections.abc import Callable
from typing import Final

import click

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhd])")
_WHOLE: Final = re.compile(rf"(?:{_PART.pattern})+")


def duration(
    longest: int, *, or_none: bool = False
) -> Callable[[click.Context, click.Parameter, str], float]:
    """The callback of an option: seconds, up to so many hours; 0 only with `or_none`."""

    def read(_: click.Context, __: click.Parameter, text: str) -> float:
        whole = text if text[-1:] in _UNITS else f"{text}s"
        parts = _PART.findall(whole) if _WHOLE.fullmatch(whole) else []
        seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
        if not parts or (not seconds and not or_none) or seconds > longest * _UNITS["h"]:
            raise click.BadParameter(f"{text!r} is not a time up to {longest}h, such as 30s or 5m")
        return seconds

    return read
