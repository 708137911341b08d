"""Templates to HTML: everything escaped, and nothing undefined passes for empty."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from webhook.dashboard.runbook import runbook
from webhook.dashboard.scene import link

_MINUTE, _HOUR, _DAY = 60.0, 3_600.0, 86_400.0

_FEW: Final = 10
_UNITS: Final = ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min"), (1.0, "s"), (0.001, "ms"))


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("webhook.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=plain,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(span=span, stamp=stamp, count=count)
    made.globals.update(ago=ago, link=link, runbook=runbook)
    return made


def render(template: str, values: Mapping[str, Any]) -> bytes:
    """One page. Takes milliseconds: not for the event loop."""
    return _environment().get_template(template).render(values).encode()


@cache
def static(name: str) -> bytes:
    """A file that pages link. Raises FileNotFoundError."""
    return resources.files("webhook.dashboard").joinpath("static", name).read_bytes()


def plain(value: Any) -> Any:
    """Text with what cannot be seen written out: control characters, and those that turn the rest.

    Escaping for HTML is another matter; it comes after this.
    """
    if not isinstance(value, str) or isinstance(value, Markup) or value.isprintable():
        return value
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in value
    )


def span(seconds: float | None) -> str:
    """`90` → `1.5 min`; `-` for what nobody knows."""
    if seconds is None:
        return "-"
    for unit, name in _UNITS:
        if seconds >= unit:
            many = seconds / unit
            return f"{many:.2g} {name}" if many < _FEW else f"{many:.0f} {name}"
    return "0 s" if seconds <= 0 else "<1 ms"


def ago(at: str | float, now: float) -> str:
    """A time, RFC 3339 or in Unix seconds, as people say it: `3 min ago`."""
    seconds = now - (at if isinstance(at, float) else datetime.fromisoformat(at).timestamp())
    for unit, name in _UNITS:
        if seconds >= unit >= 1:
            return f"{seconds // unit:.0f} {name} ago"
    return "just now"


def stamp(at: str | float) -> str:
    """A time as RFC 3339 in whole seconds of UTC."""
    moment = (
        datetime.fromtimestamp(at, UTC) if isinstance(at, float) else datetime.fromisoformat(at)
    )
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def stamp_exactly(at: float) -> str:
    """A time in Unix seconds as RFC 3339, for programs."""
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


def count(number: float) -> str:
    """`12345` → `12,345`."""
    return f"{number:,.0f}"
