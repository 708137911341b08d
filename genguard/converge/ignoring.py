"""The differences that Argo CD ignores.

Source  Argo CD Application spec.ignoreDifferences
"""

import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from genguard.blame.field_paths import Item
from genguard.converge.contest import Contest, Contested, Level
from genguard.objects.fields import from_pointer

_ANY: Final = "*"
_TARGET: Final = ("group", "kind", "name", "namespace")
_JQ: Final = re.compile(r"(?:\.?(?:([A-Za-z0-9_-]+)|\"([^\"]+)\")|\[\]|\[\"([^\"]+)\"\]|\[(\d+)\])")
_IGNORABLE: Final = (Contest.OVERWRITTEN, Contest.OWNED)


class Ignore(NamedTuple):
    """One rule: the objects, and a field with all that is below it.

    target   patterns of the whole value, for some of group, kind, name and namespace
    manager  instead of a field: all that this field manager owns
    """

    target: Mapping[str, re.Pattern[str]]
    text: str
    steps: tuple[str, ...] = ()
    manager: str = ""


def argocd_ignores(documents: Iterable[Mapping[str, Any]]) -> list[Ignore]:
    """Return the rules of Argo CD Applications. Raises ValueError for a bad JSON Pointer."""
    return [
        ignore
        for document in documents
        for rule in (document.get("spec") or {}).get("ignoreDifferences") or ()
        for ignore in _of_argocd(rule)
    ]


def _of_argocd(rule: Mapping[str, Any]) -> Iterator[Ignore]:
    given = {"group": "", **{key: value for key, value in rule.items() if key in _TARGET}}
    # Globs; an empty name or namespace is any (argo-cd util/argo/normalizers).
    target = {
        key: re.compile(fnmatch.translate(value))
        for key, value in given.items()
        if value or key == "group"
    }
    for text in rule.get("jsonPointers") or ():
        yield Ignore(target, steps=from_pointer(text), text=text)
    for text in rule.get("jqPathExpressions") or ():
        steps = _jq_steps(text)
        if steps is not None:  # others may ignore less than it looks
            yield Ignore(target, steps=steps, text=text)
    for manager in rule.get("managedFieldsManagers") or ():
        yield Ignore(target, manager=manager, text=f"manager {manager}")


def _jq_steps(text: str) -> tuple[str, ...] | None:
    """Return the steps of a plain path such as `.spec.containers[].image`; None for others."""
    steps, at = [], 0
    while at < len(text):
        found = _JQ.match(text, at)
        if found is None or found.end() == at:
            return None
        steps.append(next((group for group in found.groups() if group), _ANY))
        at = found.end()
    return tuple(steps)


def without_ignored(
    contested: Iterable[Contested], which: Mapping[str, str], rules: Sequence[Ignore]
) -> list[Contested]:
    """Return what is contested in one object; what Argo CD ignores is a note."""
    found = []
    for field in contested:
        can_be = field.contest in _IGNORABLE and field.level is Level.FIGHT
        by = next((rule for rule in rules if can_be and _ignores(rule, which, field)), None)
        ignored = by and field._replace(level=Level.NOTE, note=f"ignored by {by.text}")
        found.append(ignored or field)
    return found


def _ignores(rule: Ignore, which: Mapping[str, str], contested: Contested) -> bool:
    if not all(pattern.fullmatch(which[key]) for key, pattern in rule.target.items()):
        return False
    if rule.manager:
        return any(party.manager == rule.manager for party in contested.parties)
    # An index names an item of today; a rule does not know which one that is.
    return len(rule.steps) <= len(contested.path) and all(
        step in (_ANY, own) or (isinstance(own, Item) and step.isdecimal())
        for own, step in zip(contested.path, rule.steps, strict=False)
    )
