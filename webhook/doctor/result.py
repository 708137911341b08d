"""What a check of `genguard doctor` is, and what it says: a level, a message, and a command."""

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import NamedTuple, TypeAlias

import msgspec

from genguard.objects.shown import few
from webhook.doctor.facts import Facts, Source


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


class Line(NamedTuple):
    """What a check says."""

    level: Level
    message: str
    fix: str = ""


Find: TypeAlias = Callable[[Facts], Iterator[Line]]


class Check(NamedTuple):
    """One check: a function that yields the problems it finds, and last what is well."""

    id: str
    needs: tuple[Source, ...]
    """Without these the check would say that something is missing, or well, and cannot know."""
    find: Find

    def results(self, facts: Facts) -> Iterator[CheckResult]:
        """Yield the problems, or what is well if there are none."""
        if unread := [name for source in self.needs for name in facts.unread_of(source)]:
            message = f"not checked, for {few(unread)} could not be read"
            yield CheckResult(Level.UNKNOWN, self.id, message)
            return
        lines = list(self.find(facts))
        problems = [line for line in lines if line.level is not Level.OK]
        for line in problems or lines:
            yield CheckResult(line.level, self.id, line.message, line.fix)


def check(name: str, *needs: Source) -> Callable[[Find], Check]:
    """Make a check from the function below it; `name` is its id."""
    return lambda find: Check(name, needs, find)


def fail(message: str, fix: str) -> Line:
    """Say that something does not work."""
    return Line(Level.FAIL, message, fix)


def warn(message: str, fix: str) -> Line:
    """Say that something works, but should be changed."""
    return Line(Level.WARN, message, fix)


def ok(message: str) -> Line:
    """Say that all is well; shown only if the check found no problem."""
    return Line(Level.OK, message)
