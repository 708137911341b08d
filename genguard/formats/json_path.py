"""A part of kubectl's JSONPath: text with {.fields}, ['fields'], [n] and [*] in it.

What is left out of it (range, filters, slices, unions, `..`) is an error, never ignored. As in
kubectl a missing field prints nothing, several values are separated by a space, and objects are
printed as JSON. Source: client-go util/jsonpath and https://kubernetes.io/docs/reference/kubectl/jsonpath/.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

_NAME: Final = re.compile(r"\.((?:[A-Za-z0-9_$@/-]|\\.)+)")
_QUOTED: Final = re.compile(r"\[(?:'([^']*)'|\"([^\"]*)\")\]")
_INDEX: Final = re.compile(r"\[(-?[0-9]{1,9})\]")
_EVERY: Final = re.compile(r"\[\*\]|\.\*")
_TEXT: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_MOST: Final = 4_096
_SUPPORTED: Final = "it takes .field, ['field'], [n] and [*] in braces; for more use -o json and jq"


class BadJsonPathError(ValueError):
    """The template cannot be read; the message says where and what is possible."""


class _Every:
    """[*]: each element of a list, or each value of an object."""


_EVERY_STEP: Final = _Every()
_Step = str | int | _Every


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
    if not template or len(template) > _MOST:
        raise BadJsonPathError(f"a JSONPath has 1 to {_MOST:,} characters, such as {{.name}}")
    if "{" not in template:
        bare = template if template.startswith((".", "[", "$", "@")) else f".{template}"
        return JsonPath((_read_path(bare, template),))
    parts: list[str | tuple[_Step, ...]] = []
    at = 0
    while at < len(template):
        opened = template.find("{", at)
        if opened < 0:
            parts.append(template[at:])
            break
        if opened > at:
            parts.append(template[at:opened])
        inner, at = _braces(template, opened)
        if _TEXT.fullmatch(inner):
            try:
                parts.append(str(json.loads(inner)))
            except ValueError as error:
                raise BadJsonPathError(f"{{{inner}}} is no text in quotes") from error
        else:
            parts.append(_read_path(inner, template))
    return JsonPath(tuple(parts))


def _braces(template: str, opened: int) -> tuple[str, int]:
    """Return what stands between the braces that open here, and where the rest begins."""
    start = opened + 1
    quoted = _TEXT.match(template, start)
    closed = template.find("}", quoted.end() if quoted else start)
    if closed < 0:
        raise BadJsonPathError(f"the brace at character {opened + 1} is not closed")
    return template[start:closed].strip(), closed + 1


def _read_path(text: str, template: str) -> tuple[_Step, ...]:
    steps: list[_Step] = []
    at = len(text) - len(text.removeprefix("$").removeprefix("@"))
    if text[at:] == ".":  # the object itself
        return ()
    while at < len(text):
        if found := _EVERY.match(text, at):
            steps.append(_EVERY_STEP)
        elif found := _NAME.match(text, at):
            steps.append(re.sub(r"\\(.)", r"\1", found[1]))
        elif found := _QUOTED.match(text, at):
            steps.append(found[1] if found[1] is not None else found[2])
        elif found := _INDEX.match(text, at):
            steps.append(int(found[1]))
        else:
            where = template.find(text) + at + 1
            raise BadJsonPathError(f"{text[at : at + 10]!r} at character {where}: {_SUPPORTED}")
        at = found.end()
    if not steps:
        raise BadJsonPathError(f"{{{text}}} names no field: {_SUPPORTED}")
    return tuple(steps)


def _find(value: Any, steps: Sequence[_Step]) -> Iterator[Any]:
    """Yield each value that the steps lead to."""
    found = [value]
    for step in steps:
        found = [below for one in found for below in _below(one, step)]
    yield from found


def _below(value: Any, step: _Step) -> Iterator[Any]:
    if isinstance(value, dict):
        if isinstance(step, _Every):
            yield from value.values()
        elif step in value:
            yield value[step]
    elif isinstance(value, list | tuple):
        if isinstance(step, _Every):
            yield from value
        elif isinstance(step, int) and -len(value) <= step < len(value):
            yield value[step]


def shown_value(value: Any) -> str:
    """Return a JSON value as it is printed: text as it is, everything else as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
