"""Label selectors, where labels may be only partly known.

Source: apimachinery pkg/apis/meta/v1/types.go:LabelSelector; an empty or absent one matches all.
"""

import re
from collections.abc import Collection, Iterable, Mapping
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


_ORDER: Final = (Truth.TRUE, Truth.UNKNOWN, Truth.FALSE)


class Requirement(NamedTuple):
    """One part of a selector: what the operator of an API object says of a label."""

    key: str
    operator: str | None
    values: Collection[str] = ()

    def fits(self, labels: Mapping[str, str]) -> bool:
        """Whether labels fit it; all labels are given."""
        return self.evaluate(labels, complete=True) is Truth.TRUE

    def evaluate(self, labels: Mapping[str, str], *, complete: bool) -> Truth:
        """Whether labels fit it; `complete` says that a label not given is not there."""
        is_there = self.key in labels
        if not is_there and not complete:
            return Truth.UNKNOWN
        match self.operator:
            case "In":
                fits = is_there and labels[self.key] in self.values
            case "NotIn":
                fits = not is_there or labels[self.key] not in self.values
            case "Exists":
                fits = is_there
            case "DoesNotExist":
                fits = not is_there
            case _:
                return Truth.UNKNOWN
        return Truth.TRUE if fits else Truth.FALSE


def parse_label_selector(text: str) -> list[Requirement]:
    """Read a selector as kubectl -l takes it: `a=b,c!=d,e in (f,g),h,!i`. Raises ValueError.

    Source: apimachinery pkg/labels/selector.go:Parse.
    """
    # At the commas that stand outside of parentheses.
    parts = re.split(r",(?![^()]*\))", text)
    return [_parse_requirement(part.strip()) for part in parts if part.strip()]


def _parse_requirement(text: str) -> Requirement:
    if found := _SET.fullmatch(text):
        key, operator, listed = found.groups()
        values = {value.strip() for value in listed.split(",")}
        return Requirement(key, "In" if operator == "in" else "NotIn", values)
    if found := EQUALITY.fullmatch(text):
        key, operator, value = found.groups()
        return Requirement(key, "NotIn" if operator == "!=" else "In", (value,))
    found = _NAMED.fullmatch(text)
    if found is None:
        raise ValueError(f"unable to parse requirement: {text!r}")
    return Requirement(found[2], "DoesNotExist" if found[1] else "Exists")


def matches_labels(
    selector: Mapping[str, Any] | None, labels: Mapping[str, str], *, complete: bool
) -> Truth:
    """Whether labels match; `complete` says that a label not given is not there."""
    if not selector:
        return Truth.TRUE
    equal = (selector.get("matchLabels") or {}).items()
    wanted = [Requirement(key, "In", (value,)) for key, value in equal]
    wanted += [
        Requirement(
            expression.get("key", ""), expression.get("operator"), expression.get("values") or ()
        )
        for expression in selector.get("matchExpressions") or ()
    ]
    return every(requirement.evaluate(labels, complete=complete) for requirement in wanted)


def every(answers: Iterable[Truth]) -> Truth:
    """One false answer decides, whatever is unknown; true without any answer."""
    return max(answers, key=_ORDER.index, default=Truth.TRUE)


def some(answers: Iterable[Truth]) -> Truth:
    """One true answer decides, whatever is unknown; false without any answer."""
    return min(answers, key=_ORDER.index, default=Truth.FALSE)
