"""A part of kubectl's JSONPath: text with {.fields}, ['fields'], [n] and [*] in it.

What is left out of it (range, filters, slices, unions, `..`) is an error, never ignored. As in
kubectl a missing field prints nothing, several values are separated by a space, and objects are
printed as JSON. Source: client-go util/jsonpath and https://kubernetes.io/docs/reference/kubectl/jsonpath/.
"""

import json
import re
from dataclasses import dataclass
from typing import Any, Final, cast

_STEP: Final = re.compile(
    r"""(?P<every>\[\*\]|\.\*)|\.(?P<name>(?:[A-Za-z0-9_$@/-]|\\.)+)"""
    r"""|\[(?P<quote>['"])(?P<quoted>.*?)(?P=quote)\]|\[(?P<index>-?[0-9]{1,9})\]"""
)
_PART: Final = re.compile(r"""[^{]+|\{\s*((?:"(?:[^"\\]|\\.)*"|[^}"])*[^}]*)\}""")
_SUPPORTED: Final = "it takes .field, ['field'], [n] and [*] in braces; for more use -o json and jq"
_Step = str | int | None
"""A name, an index, or None for each element of a list, or each value of an object."""


class BadJsonPathError(ValueError):
    """The template cannot be read; the message says where and what is possible."""


@dataclass(frozen=True, slots=True)
class JsonPath:
    """A template that was read: texts as they are printed, and paths."""

    parts: tuple[str | tuple[_Step, ...], ...]

    def apply(self, value: Any) -> str:
        """Return the text of the template for a JSON value."""
        return "".join(
            part if isinstance(part, str) else " ".join(map(shown_value, _find(value, part)))
            for part in self.parts
        )

    def values(self, value: Any) -> list[Any]:
        """Return what its paths lead to in a JSON value, without the text between them."""
        paths = (part for part in self.parts if not isinstance(part, str))
        return [found for path in paths for found in _find(value, path)]


def parse_json_path(template: str) -> JsonPath:
    """Read a template; one without braces is a path. Raises BadJsonPathError."""
    if not template:
        raise BadJsonPathError("no template is given, such as {.name}")
    if "{" not in template:
        is_path = template.startswith((".", "[", "$", "@"))
        return JsonPath((_read_path(template if is_path else f".{template}", template),))
    parts: list[str | tuple[_Step, ...]] = []
    at = 0
    while at < len(template):
        found = _PART.match(template, at)
        if found is None:
            raise BadJsonPathError(f"the brace at character {at + 1} is not closed")
        at, inner = found.end(), found[1]
        if inner is None:
            parts.append(found[0])
        elif inner.startswith('"'):
            try:
                parts.append(str(json.loads(inner)))
            except ValueError as error:
                raise BadJsonPathError(f"{{{inner}}} is no text in quotes") from error
        else:
            parts.append(_read_path(inner.rstrip(), template))
    return JsonPath(tuple(parts))


def _read_path(text: str, template: str) -> tuple[_Step, ...]:
    steps: list[_Step] = []
    at = len(text) - len(text.removeprefix("$").removeprefix("@"))
    if text[at:] == ".":  # the object itself
        return ()
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            where = template.find(text) + at + 1
            raise BadJsonPathError(f"{text[at : at + 10]!r} at character {where}: {_SUPPORTED}")
        at = found.end()
        if found["every"]:
            steps.append(None)
        elif found["index"]:
            steps.append(int(found["index"]))
        else:
            steps.append(found["quoted"] or re.sub(r"\\(.)", r"\1", found["name"] or ""))
    if not steps:
        raise BadJsonPathError(f"{{{text}}} names no field: {_SUPPORTED}")
    return tuple(steps)


def _find(value: Any, steps: tuple[_Step, ...]) -> list[Any]:
    found = [value]
    for step in steps:
        found = [below for parent in found for below in _below(parent, step)]
    return found


def _below(value: Any, step: _Step) -> list[Any]:
    if not isinstance(value, dict | list | tuple):
        return []
    if step is None:
        return list(value.values() if isinstance(value, dict) else value)
    try:
        return [cast("Any", value)[step]]
    except (KeyError, IndexError, TypeError):
        return []


def shown_value(value: Any) -> str:
    """Return a JSON value as it is printed: text as it is, everything else as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
