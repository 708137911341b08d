"""Turns documents that differ by options into one Helm template.

`merged` compares a tree with what one more component makes of it, and marks the differences with
the condition under which they are there. `template` writes such a tree as YAML with Go templates.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

NAMESPACE = "genguard-system"
_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*")
_WORDS = {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}


@dataclass(frozen=True, slots=True)
class When:
    """A value, an item of a list or an entry of a mapping that is there under a condition."""

    condition: str
    value: Any


@dataclass(frozen=True, slots=True)
class Choice:
    """One value where a condition holds, and another one elsewhere."""

    condition: str
    then: Any
    otherwise: Any


@dataclass(frozen=True, slots=True)
class Template:
    """A scalar that a Go template writes, its quotes included."""

    text: str


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of a template in place of items; `{n}` is their indentation, `{m}` 2 more."""

    text: str


def merged(tree: Any, other: Any, condition: str, given: Collection[str] = ()) -> Any:
    """Add to a tree what is different in `other`, under a condition.

    `other` has what the conditions of `given` add, too, and nothing of other conditions.
    """
    if isinstance(tree, dict) and isinstance(other, dict):
        found = {}
        for key, value in tree.items():
            if isinstance(value, When) and value.condition not in given:
                found[key] = value
            else:
                found[key] = _inside(value, other[key], condition, given)
        new = {key: When(condition, value) for key, value in other.items() if key not in tree}
        return found | new
    if isinstance(tree, list) and isinstance(other, list):
        left = iter(other)
        items = [
            one
            if isinstance(one, When) and one.condition not in given
            else _inside(one, next(left), condition, given)
            for one in tree
        ]
        return items + [When(condition, one) for one in left]
    if isinstance(tree, Choice):
        return Choice(tree.condition, tree.then, merged(tree.otherwise, other, condition, given))
    return tree if tree == other else Choice(condition, other, tree)


def _inside(value: Any, other: Any, condition: str, given: Collection[str]) -> Any:
    if isinstance(value, When):
        return When(value.condition, merged(value.value, other, condition, given))
    return merged(value, other, condition, given)


def template(tree: Mapping[str, Any]) -> str:
    """Write a document."""
    return "\n".join(_lines(tree, 0)) + "\n"


def _lines(value: Any, indent: int) -> Iterator[str]:
    """Yield a mapping or list, line by line."""
    entries = value.items() if isinstance(value, Mapping) else ((None, one) for one in value)
    for key, one in entries:
        yield from _entry(key, one, indent)


def _entry(key: str | None, value: Any, indent: int) -> Iterator[str]:
    space = " " * indent
    if isinstance(value, When):
        yield f"{space}{{{{- if {value.condition} }}}}"
        yield from _entry(key, value.value, indent)
        yield f"{space}{{{{- end }}}}"
    elif isinstance(value, Lines):
        text = value.text.replace("{n}", str(indent)).replace("{m}", str(indent + 2))
        yield from (f"{space}{line}" for line in text.splitlines())
    elif isinstance(value, Choice):
        yield f"{space}{{{{- if {value.condition} }}}}"
        yield from _entry(key, value.then, indent)
        yield f"{space}{{{{- else }}}}"
        yield from _entry(key, value.otherwise, indent)
        yield f"{space}{{{{- end }}}}"
    elif isinstance(value, (dict, list)) and value:
        yield from _container(key, value, indent)
    else:
        yield f"{space}{'-' if key is None else f'{_scalar(key)}:'} {_scalar(value)}"


def _container(key: str | None, value: Any, indent: int) -> Iterator[str]:
    if key is not None:
        yield f"{' ' * indent}{_scalar(key)}:"
        yield from _lines(value, indent + 2)
        return
    # An item that begins with a directive stands on lines of its own, after a dash alone.
    first, *rest = _lines(value, indent + 2)
    if first.lstrip().startswith("{{"):
        yield f"{' ' * indent}-"
        yield first
    else:
        yield f"{' ' * indent}- {first.lstrip()}"
    yield from rest


def _scalar(value: Any) -> str:
    if isinstance(value, Template):
        return value.text
    if isinstance(value, str):
        if "{{" in value:
            raise ValueError(f"a template would read {value!r}")
        if _PLAIN.fullmatch(value) and value.lower() not in _WORDS and NAMESPACE not in value:
            return value
        return json.dumps(value, ensure_ascii=False).replace(NAMESPACE, "{{ $.Release.Namespace }}")
    return json.dumps(value)
