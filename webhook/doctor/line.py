"""What a check says: how it stands, in words, and the command that mends it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from webhook.doctor.facts import Facts

_TOLD: Final = 3


class Level(StrEnum):
    """A failure keeps genguard from its work or writes from theirs; a warning may, some day."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"

    @property
    def rank(self) -> int:
        """2 is the worst."""
        return list(Level).index(self)


class Line(msgspec.Struct, frozen=True, tag="check", tag_field="type"):
    """One answer of one check; `mend` is a shell command, "" where nothing is to be mended."""

    level: Level
    id: str
    message: str
    mend: str = ""


Check: TypeAlias = Callable[[Facts], Iterator[Line]]


def fail(name: str, message: str, mend: str) -> Line:
    """Something does not work."""
    return Line(Level.FAIL, name, message, mend)


def warn(name: str, message: str, mend: str) -> Line:
    """Something works, and should not stay so."""
    return Line(Level.WARN, name, message, mend)


def few(names: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    more = f" and {len(names) - _TOLD} more" if len(names) > _TOLD else ""
    return f"{', '.join(names[:_TOLD])}{more}"


def well(name: str, message: str, others: Iterable[Line]) -> Iterator[Line]:
    """The lines of a check, or one that all is well."""
    found = list(others)
    yield from found or [Line(Level.OK, name, message)]
