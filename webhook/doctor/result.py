"""The result of a check: a level, a message, and the command that repairs the problem."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from webhook.doctor.facts import Facts

_NAMED: Final = 3


class Level(StrEnum):
    """fail: genguard does not work, or it blocks writes. warn: this may happen later.

    unknown: it could not be asked; nothing speaks against it.
    """

    OK = "ok"
    UNKNOWN = "unknown"
    WARN = "warn"
    FAIL = "fail"

    @property
    def rank(self) -> int:
        """0 for ok and unknown, 1 for warn, 2 for fail; the exit code of doctor is 1 above 0."""
        return {Level.WARN: 1, Level.FAIL: 2}.get(self, 0)


class CheckResult(msgspec.Struct, frozen=True, tag="check", tag_field="type"):
    """One result of one check; `fix` is a shell command, "" where nothing is wrong."""

    level: Level
    id: str
    message: str
    fix: str = ""


Check: TypeAlias = Callable[[Facts], Iterator[CheckResult]]


def fail(name: str, message: str, repair: str) -> CheckResult:
    """A result for something that does not work."""
    return CheckResult(Level.FAIL, name, message, repair)


def warn(name: str, message: str, repair: str) -> CheckResult:
    """A result for something that works, but should be changed."""
    return CheckResult(Level.WARN, name, message, repair)


def few(names: Sequence[str]) -> str:
    """Join the first three names and count the others: `a, b, c and 2 more`."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"


def results_or_ok(name: str, message: str, others: Iterable[CheckResult]) -> Iterator[CheckResult]:
    """Return the problems of a check, or one ok result with `message` if there are none."""
    found = list(others)
    yield from found or [CheckResult(Level.OK, name, message)]
