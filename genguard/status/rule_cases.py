"""Cases for rules: an object, and what a rule must say of it."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from genguard.status.assessment import Judge
from genguard.status.evaluate import evaluate
from genguard.status.health_rules import BadRuleError, Key
from genguard.status.trees import group_and_kind
from genguard.status.view import Health, StatusView, short_word

CASES: Final = "cases"
_WORDS: Final = (Key.CURRENT.value, Key.IN_PROGRESS.value, Key.FAILED.value)
_VERDICT: Final = "verdict"
_KEYS: Final = ("because", "object", "expect")
_FORM: Final = f"`expect` is {_WORDS[0]}, {_WORDS[1]} or {_WORDS[2]}, or a mapping with"


class Case(NamedTuple):
    """One case. `expect` has only what the case is about."""

    because: str
    object: Mapping[str, Any]
    expect: Mapping[str, Any]

    @property
    def of(self) -> tuple[str, str]:
        """Group and kind of the object."""
        return group_and_kind(self.object)

    def differences(self, judge: Judge, at: float) -> list[str]:
        """Return what differs from what is expected, in words; [] when the case passes."""
        view = evaluate(self.object, answers=judge(self.object), at=at)
        given = {
            _VERDICT: verdict(view),
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


def verdict(view: StatusView) -> str:
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
        expect = {_VERDICT: expect}
    if not isinstance(expect, Mapping) or not expect:
        raise BadRuleError(f"{path}: {_FORM} {', '.join(_EXPECTED)}")
    for key, value in expect.items():
        if not _EXPECTED.get(key, _is_unknown)(value):
            raise BadRuleError(f"{path}.expect: {short_word(str(key))} cannot be that; {_FORM} "
                               f"{', '.join(_EXPECTED)}")  # fmt: skip
    return Case(str(item.get("because", "")), document, dict(expect))


def _is_unknown(_: Any) -> bool:
    return False


_EXPECTED: Final = {
    _VERDICT: lambda value: value in _WORDS,
    "ready": lambda value: isinstance(value, bool),
    "settled": lambda value: isinstance(value, bool),
    "health": lambda value: value in tuple(Health),
    "progress": lambda value: value is None or isinstance(value, (int, float)),
}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
