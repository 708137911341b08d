"""Templates to HTML: everything escaped, and nothing undefined passes for empty."""

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from webhook.dashboard.query import link
from webhook.dashboard.runbook import runbook
from webhook.dashboard.words import ago, count, plain, span, stamp


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
