"""Render templates to HTML, and format values for people. Undefined variables are errors."""

import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from genguard.detection.finding import Finding, Severity, names_of
from genguard.objects.shown import json_line, printable
from webhook.dashboard.headlines import damaged, happening
from webhook.dashboard.page import link, ranges

ENDING: Final = "ending"
REPAIRED: Final = "repaired"
GOES_ON: Final = "goes on"
_WORDS: Final = {
    "Red": "broken",
    "Yellow": "waiting",
    "Green": "fine",
    "open": GOES_ON,
    "quiet": "broken, no new signal",
    "resolved": "fine again",
}
"""What pages call the healths of objects and the states of findings: broken, waiting or fine. Their
names in JSON and in parameters are the keys."""
_FEW: Final = 10
_UNITS: Final = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"), (0.001, "ms"))


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
    made.filters.update(span=span, stamp=stamp, count="{:,.0f}".format)
    made.filters.update(seconds=seconds, shell=shlex.quote, json=json_line, lasts=lasts)
    made.filters.update(word=word)
    made.globals.update(state=state, ago=ago, link=link, ranges=ranges)
    made.globals.update(goes_on=GOES_ON, names_of=names_of)
    made.globals.update(shown_severity=shown_severity, happening=happening, damaged=damaged)
    return made


def render(template: str, values: Mapping[str, Any]) -> bytes:
    """Render one page. Takes milliseconds: run it in a thread."""
    return _environment().get_template(template).render(values).encode()


@cache
def static(name: str) -> bytes:
    """Return a static file. Raises FileNotFoundError."""
    return resources.files("webhook.dashboard").joinpath("static", name).read_bytes()


def plain(value: Any) -> Any:
    """Return text with invisible characters escaped, such as control and direction characters.

    The template escapes HTML after this.
    """
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def span(seconds: float | None) -> str:
    """Format a duration: `90` → `1.5 min`; `-` if it is unknown."""
    if seconds is None:
        return "-"
    for unit, name in _UNITS:
        if seconds >= unit:
            many = seconds / unit
            return f"{many:.2g} {name}" if many < _FEW else f"{many:.0f} {name}"
    return "0 s" if seconds <= 0 else "<1 ms"


def ago(at: str | float, now: float) -> str:
    """Format a time, RFC 3339 or Unix seconds, relative to now: `3 min ago`."""
    seconds = now - parse_time(at)
    for unit, name in _UNITS:
        if seconds >= unit >= 1:
            return f"{seconds // unit:.0f} {name} ago"
    return "just now"


def lasts(at: str, now: float) -> str:
    """Format the time since an RFC 3339 time: `3 min`."""
    return span(max(now - parse_time(at), 0.0) // 1)


def shown_severity(finding: Finding, now: float) -> str:
    """Return the severity; REPAIRED for what genguard puts back at each write.

    ENDING for what is broken, but only waits to be resolved.
    """
    if finding.restored:
        return REPAIRED
    return (
        ENDING
        if finding.severity is not Severity.INFO and finding.is_ending(now)
        else finding.severity
    )


def word(name: str) -> str:
    """Return what pages call a health or a state; other names as they are."""
    return _WORDS.get(name, name)


def state(finding: Finding, now: float) -> str:
    """Say how a finding stands: `waiting: no signal for 26 s, fine in 34 s if it stays so`."""
    if finding.restored:
        return "repaired at each write"
    if finding.is_ending(now):
        quiet = max(now - parse_time(finding.last_seen), 0.0)
        left = span(max(finding.resolves_after - quiet, 0.0) // 1)
        if finding.ends[1] <= now:
            return f"repaired, resolved in {left} if it stays so"
        why = "repaired" if finding.repaired else f"no signal for {span(quiet // 1)}"
        return f"waiting: {why}, fine in {left} if it stays so"
    if finding.incomplete_since and finding.state != "resolved":
        return f"{word(finding.state)}, not fully seen for {lasts(finding.incomplete_since, now)}"
    is_watched = finding.repaired and finding.state == "open"
    return "repaired, watched until it stays so" if is_watched else word(finding.state)


def stamp(at: str | float) -> str:
    """Format a time as RFC 3339 in UTC and whole seconds."""
    return f"{datetime.fromtimestamp(parse_time(at), UTC):%Y-%m-%dT%H:%M:%SZ}"


def parse_time(at: str | float) -> float:
    """Return the Unix seconds of a time: RFC 3339, or Unix seconds already."""
    return at if isinstance(at, float) else datetime.fromisoformat(at).timestamp()


def seconds(at: str | None) -> float:
    """Return the Unix seconds of an RFC 3339 time; 0 for none."""
    return parse_time(at) if at else 0.0
