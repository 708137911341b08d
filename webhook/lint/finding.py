"""What a check says: what is wrong, where, what to do about it, and who says so."""

from enum import StrEnum

import msgspec


class Level(StrEnum):
    """An error breaks a cluster some day, a warning may; info is good to know."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        """0 is the worst."""
        return list(Level).index(self)


class LintFinding(msgspec.Struct, frozen=True, rename="camel", tag="lint", tag_field="type"):
    """One thing; `webhook` is "configuration/webhook", `field` a path inside the configuration."""

    id: str
    severity: Level
    webhook: str
    field: str
    message: str
    reason: str
