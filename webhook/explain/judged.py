"""How `genguard status` judges a kind: what the judge and its module say of themselves."""

import sys
from inspect import getdoc
from typing import Final

import msgspec

from webhook.status.judgement import Kind
from webhook.status.kinds.table import GENERIC, kind_of
from webhook.status.ready_table import load_ready_table

_OBSERVES: Final = "status.observedGeneration is metadata.generation"
_OBSERVES_IF_WRITTEN: Final = "status.observedGeneration, where there is one, is the generation"
_DRAINS: Final = "no pod of it is terminating (KEP-3973)"


class Judged(msgspec.Struct, frozen=True, rename="camel"):
    """A line each.

    first    what has to hold before the rest is looked at
    amends   in what Ready asks for other things than the Ready table of Improve .status
    """

    ready: str
    settled: str
    first: str
    amends: str
    source: str
    generic: bool


def judged(group: str, kind: str) -> Judged:
    """How objects of a kind are judged; every kind is, by generic conditions if by nothing else."""
    rule = kind_of(group, kind)
    own, family = _sections(rule.judge), _sections(sys.modules[rule.judge.__module__])
    return Judged(
        ready=own["Ready"],
        settled=f"{own['Settled']}; {_DRAINS}" if rule.drains else own["Settled"],
        first=_first(rule),
        amends=_amendment(group, kind),
        source=family.get("Source", ""),
        generic=rule is GENERIC,
    )


def _first(rule: Kind) -> str:
    if rule.silent:
        return ""
    return _OBSERVES if rule.observes else _OBSERVES_IF_WRITTEN


def _amendment(group: str, kind: str) -> str:
    rows = load_ready_table().rows
    found = (row.amendment for row in rows if row.kind == kind and group in row.groups)
    return next(filter(None, found), "")


def _sections(documented: object) -> dict[str, str]:
    """`Ready    text` at the margin of a docstring and further in: one line for each such word."""
    found: dict[str, str] = {}
    word = ""
    for line in (getdoc(documented) or "").splitlines():
        name, _, text = line.partition("  ")
        if line.startswith("  ") and word:
            found[word] += f" {line.strip()}"
        elif name.isalpha() and text:
            word = name
            found[word] = text.strip()
        else:
            word = ""
    return found
