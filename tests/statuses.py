"""Objects for tables of status: a good one of each kind, and what a row changes in it."""

import copy
import re
from typing import Any

from genguard.status.evaluate import evaluate
from genguard.status.view import Past, StatusView
from tests.cases_loader import Case, read_beside

NOW = 1_800_000_000.0
"""2027-01-15T08:00:00Z."""
GOOD: dict[str, dict[str, Any]] = read_beside(__file__, "statuses.yaml")
KEYS = ("object", "of", "with", "without", "ready", "settled", "health", "reasons")
"""What every row of a table of views holds, besides what it says of other fields."""
_STEP = re.compile(r"([^.\[\]]+)|\[([^\]]*)\]")


def changed(
    of: str | dict[str, Any], with_: dict[str, Any] | None = None, without: list[str] | None = None
) -> dict[str, Any]:
    """A good object with other values at `status.conditions[Ready].status`, or without them.

    `of` names one of statuses.yaml, or is an object itself.
    In brackets stands the type of a condition, which is added when there is none.
    """
    document = copy.deepcopy(GOOD[of] if isinstance(of, str) else of)
    for path, value in (with_ or {}).items():
        *walk, last = _steps(path)
        place: Any = document
        for step in walk:
            place = _enter(place, step)
        if last.startswith("["):
            _enter(place, last).update(value)
        else:
            place[last] = value
    for path in without or []:
        *walk, last = _steps(path)
        place = document
        for step in walk:
            place = _enter(place, step)
        if last.startswith("["):
            place.remove(_enter(place, last))
        else:
            del place[last]
    return document


def view_of(case: Case, past: Past | None = None) -> StatusView:
    """What evaluate() says of a row's object."""
    return evaluate(document_of(case), past, at=NOW)


def document_of(case: Case) -> dict[str, Any]:
    """The object of a row: written out under `object`, or `of`, a good one, with changes."""
    if "object" in case.values:
        found: dict[str, Any] = case["object"]
        return found
    return changed(case["of"], case.get("with"), case.get("without"))


def _steps(path: str) -> list[str]:
    return [name or f"[{kind}]" for name, kind in _STEP.findall(path)]


def _enter(place: Any, step: str) -> Any:
    if not step.startswith("["):
        return place.setdefault(step, [] if step == "conditions" else {})
    for item in place:
        if item["type"] == step[1:-1]:
            return item
    place.append({"type": step[1:-1]})
    return place[-1]
