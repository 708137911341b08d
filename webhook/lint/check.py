"""What every check is given and gives back."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Protocol

from webhook.lint.finding import Level, LintFinding
from webhook.lint.hook import Hook


@dataclass(frozen=True, slots=True)
class Surroundings:
    """All that was given: other webhooks, Services, the time; `live`: it came from a cluster."""

    hooks: tuple[Hook, ...]
    services: Mapping[tuple[str, str], Mapping[str, Any]]
    at: datetime
    live: bool

    @property
    def mutating(self) -> list[Hook]:
        """The mutating webhooks in the order of their calls."""
        return sorted((hook for hook in self.hooks if hook.mutates), key=lambda hook: hook.order)


class Check(Protocol):
    """Pure. A check that needs another file than its own is two checks."""

    id: ClassVar[str]
    reason: ClassVar[str]

    def look(self, hook: Hook, around: Surroundings) -> Iterator[LintFinding]:
        """What is wrong with one webhook."""


def told(check: Check, level: Level, hook: Hook, field: str, message: str) -> LintFinding:
    """A finding of a check; `field` is a whole path, as Hook.field gives it."""
    return LintFinding(check.id, level, hook.name, field, message, check.reason)
