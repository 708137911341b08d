"""Label selectors, where labels may be only partly known.

Source: apimachinery pkg/apis/meta/v1/types.go:LabelSelector; an empty or absent one matches all.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Final, NamedTuple

_SET: Final = re.compile(r"(\S+)\s+(in|notin)\s+\(([^()]*)\)")
EQUALITY: Final = re.compile(r"([^=!\s]+)\s*(==|=|!=)\s*([^=!\s]*)")
"""KEY=VALUE, KEY==VALUE or KEY!=VALUE."""
_NAMED: Final = re.compile(r"(!?)\s*([A-Za-z0-9_./-]+)")


class Truth(Enum):
    """Three answers, since a review does not show the labels of its namespace."""

    TRUE = "true"
    FALSE = "false"
    UNKNOWN = "unknown"


class Requirement(NamedTuple):
    """One part of a selector as it is typed, and whether labels fit it."""

    key: str
    fits: Callable[[Mapping[str, str]], bool]


def parse_label_selector(text: str) -> list[Requirement]:
    """Read a selector as kubectl -l takes it: `a=b,c!=d,e in (f,g),h,!i`. Raises ValueError.

    Source: apimachinery pkg/labels/selector.go:Parse.
    """
    # At the commas that stand outside of parentheses.
    parts = re.split(r",(?![^()]*\))", text)
    return [_parse_requirement(one.strip()) for one in parts if one.strip()]


def _parse_requirement(text: str) -> Requirement:
    found = _SET.fullmatch(text)
    if found:
        key, operator, listed = found.groups()
        values = {one.strip() for one in listed.split(",")}
        if operator == "in":
            return Requirement(key, lambda labels: key in labels and labels[key] in values)
        return Requirement(key, lambda labels: labels.get(key) not in values)
    found = EQUALITY.fullmatch(text)
    if found:
        key, operator, value = found.groups()
        if operator == "!=":
            return Requirement(key, lambda labels: labels.get(key) != value)
        return Requirement(key, lambda labels: labels.get(key) == value)
    found = _NAMED.fullmatch(text)
    if found is None:
        raise ValueError(f"unable to parse requirement: {text!r}")
    absent, key = found.groups()
    return Requirement(key, lambda labels: (key in labels) is not bool(absent))


def matches_labels(
    selector: Mapping[str, Any] | None, labels: Mapping[str, str], *, complete: bool
) -> Truth:
    """Whether labels match; `complete` says that a label not given is not there."""
    if not selector:
        return Truth.TRUE
    answers = [
        _equals(labels, key, value, complete=complete)
        for key, value in (selector.get("matchLabels") or {}).items()
    ]
    answers += [
        _expression(one, labels, complete=complete)
        for one in selector.get("matchExpressions") or ()
    ]
    return every(answers)


def every(answers: Iterable[Truth]) -> Truth:
    """One that is false decides, whatever is unknown; of none at all it is true."""
    given = set(answers)
    if Truth.FALSE in given:
        return Truth.FALSE
    return Truth.UNKNOWN if Truth.UNKNOWN in given else Truth.TRUE


def _equals(labels: Mapping[str, str], key: str, value: str, *, complete: bool) -> Truth:
    if key not in labels:
        return Truth.FALSE if complete else Truth.UNKNOWN
    return _truth(labels[key] == value)


def _expression(one: Mapping[str, Any], labels: Mapping[str, str], *, complete: bool) -> Truth:
    key, values = one.get("key", ""), one.get("values") or ()
    if key not in labels and not complete:
        return Truth.UNKNOWN
    match one.get("operator"):
        case "In":
            return _truth(key in labels and labels[key] in values)
        case "NotIn":
            return _truth(key not in labels or labels[key] not in values)
        case "Exists":
            return _truth(key in labels)
        case "DoesNotExist":
            return _truth(key not in labels)
        case _:
            return Truth.UNKNOWN


def _truth(value: bool) -> Truth:  # noqa: FBT001 - a converter of this one value
    return Truth.TRUE if value else Truth.FALSE
