"""The rules that genguard ships, and cases for rules: an object, and what a rule must say of it.

In the folder library a file PROJECT.yaml has the rules of a project, PROJECT.cases.yaml the cases.
They are data, and the expressions are our own; each file names the API types and controllers that
it was read from.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any, Final, Literal, NamedTuple

import msgspec

from genguard.formats.documents import load_document
from genguard.status.assessment import AskRules
from genguard.status.evaluate import evaluate
from genguard.status.health_rules import BadRuleError, HealthRule, Key, distinct, parse_rules
from genguard.status.trees import group_and_kind
from genguard.status.view import Health, StatusView

CASES: Final = "cases"
_WORDS: Final = (Key.CURRENT.value, Key.IN_PROGRESS.value, Key.FAILED.value)
_KEYS: Final = ("because", "object", "expect")


class Case(NamedTuple):
    """One case. `expect` has only what the case is about."""

    because: str
    object: Mapping[str, Any]
    expect: Mapping[str, Any]

    @property
    def of(self) -> tuple[str, str]:
        """Group and kind of the object."""
        return group_and_kind(self.object)

    def differences(self, ask_rules: AskRules, at: float) -> list[str]:
        """Return what differs from what is expected, in words; [] when the case passes."""
        view = evaluate(self.object, answers=ask_rules(self.object), at=at)
        given = {
            "result": result(view),
            "ready": view.ready,
            "settled": view.settled,
            "health": view.health.value,
            "progress": view.progress,
        }
        wrong = [
            f"{key} {_text(given[key])}, want {_text(want)}"
            for key, want in self.expect.items()
            if given[key] != want
        ]
        return [*wrong, *map(str, view.reasons)] if wrong else []


def result(view: StatusView) -> str:
    """`current`, `inProgress` or `failed`, as Flux would call it."""
    if view.failed:
        return Key.FAILED.value
    return Key.CURRENT.value if view.ready and view.settled else Key.IN_PROGRESS.value


def parse_cases(document: Any) -> Iterator[Case]:
    """Yield the cases of a document; none where it has none. Raises BadRuleError."""
    listed = document.get(CASES) if isinstance(document, Mapping) else None
    if listed is None:
        return
    if not isinstance(listed, list):
        raise BadRuleError(f"{CASES}: not a list")
    for index, item in enumerate(listed):
        yield _parse_case(item, f"{CASES}[{index}]")


def _parse_case(item: Any, path: str) -> Case:
    if not isinstance(item, Mapping) or not set(item) <= set(_KEYS):
        raise BadRuleError(f"{path}: not a mapping with {', '.join(_KEYS)}")
    document, expect = item.get("object"), item.get("expect")
    if not isinstance(document, Mapping) or not all(group_and_kind(document)):
        raise BadRuleError(f"{path}.object: not an object with apiVersion and kind")
    if expect in _WORDS:
        expect = {"result": expect}
    try:
        msgspec.convert(expect, _Expected)
    except msgspec.ValidationError as error:
        raise BadRuleError(f"{path}.expect: {error}; {_FORM}") from error
    if not expect:
        raise BadRuleError(f"{path}: {_FORM}")
    return Case(str(item.get("because", "")), document, dict(expect))


class _Expected(msgspec.Struct, forbid_unknown_fields=True):
    result: Literal["current", "inProgress", "failed"] | None = None
    ready: bool | None = None
    settled: bool | None = None
    health: Health | None = None
    progress: float | None = None


_FORM: Final = (
    f"`expect` is {', '.join(_WORDS)}, or a mapping with {', '.join(_Expected.__struct_fields__)}"
)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_CASES: Final = ".cases.yaml"


@cache
def load_library() -> tuple[HealthRule, ...]:
    """Return every rule; the file of a rule is its source. Raises BadRuleError."""
    return distinct(
        rule
        for name, document in _documents(cases=False)
        for rule in parse_rules(document, f"library: {name}")
    )


def load_library_cases() -> Iterator[tuple[str, Case]]:
    """Yield the cases of each project, with the name of the project. Raises BadRuleError."""
    for name, document in _documents(cases=True):
        for case in parse_cases(document):
            yield name, case


def _documents(*, cases: bool) -> Iterator[tuple[str, Any]]:
    folder = resources.files(__package__) / "library"
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        end = _CASES if cases else ".yaml"
        if file.name.endswith(end) and file.name.endswith(_CASES) is cases:
            yield file.name.removesuffix(end), load_document(file.read_bytes())
