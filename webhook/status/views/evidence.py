"""What the causes of a disagreement ask: who said what, and what the object shows."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from webhook.objects.fields import ABSENT
from webhook.status.views.argo import ArgoHealth
from webhook.status.views.kstatus import Kstatus
from webhook.status.views.reading import Document, number, text, tolerant
from webhook.status.views.rollout import Rollout


class Outcome(StrEnum):
    """What the words of the tools have in common."""

    DONE = "done"
    WAITING = "waiting"
    FAILED = "failed"
    SUSPENDED = "suspended"
    UNREADABLE = "unreadable"


class Tool(StrEnum):
    """Whose judgement a cause explains."""

    GENGUARD = "genguard"
    KSTATUS = "kstatus"
    ARGO = "Argo CD"
    KUBECTL = "kubectl"


_OUTCOMES: Mapping[str, Outcome] = {
    Kstatus.CURRENT: Outcome.DONE,
    Kstatus.IN_PROGRESS: Outcome.WAITING,
    Kstatus.TERMINATING: Outcome.WAITING,
    Kstatus.FAILED: Outcome.FAILED,
    Kstatus.UNKNOWN: Outcome.UNREADABLE,
    ArgoHealth.HEALTHY: Outcome.DONE,
    ArgoHealth.PROGRESSING: Outcome.WAITING,
    ArgoHealth.DEGRADED: Outcome.FAILED,
    ArgoHealth.SUSPENDED: Outcome.SUSPENDED,
    ArgoHealth.UNKNOWN: Outcome.UNREADABLE,
    Rollout.COMPLETE: Outcome.DONE,
    Rollout.WAITING: Outcome.WAITING,
    Rollout.FAILED: Outcome.FAILED,
}


@dataclass(frozen=True, slots=True)
class Evidence:
    """One object and the judgements on it."""

    document: Document
    done: bool
    """genguard's own: ready and settled. It does not tell failed from waiting here."""
    words: Mapping[Tool, str]
    """What the tools said; one that has no answer is absent."""

    def outcome(self, tool: Tool) -> Outcome | None:
        """What a tool's word means; None where it has no answer."""
        return _OUTCOMES.get(self.words.get(tool, ""))

    def differs(self, tool: Tool) -> bool:
        """Whether anybody contradicts this tool."""
        others = {other: self.outcome(other) for other in self.words if other is not tool}
        if tool is Tool.GENGUARD:
            return any(self._contradicts(outcome) for outcome in others.values())
        own = self.outcome(tool)
        return own is not None and (
            self._contradicts(own) or any(outcome != own for outcome in others.values())
        )

    def _contradicts(self, outcome: Outcome | None) -> bool:
        if self.done:
            return outcome is not Outcome.DONE
        return outcome in (Outcome.DONE, Outcome.UNREADABLE)

    def text(self, *path: str) -> str:
        """The string at a path, or ""."""
        return text(self.document, *path)

    def count(self, field: str) -> int:
        """A number of `status`, 0 if there is none."""
        return number(self.document, "status", field)

    def wanted(self) -> int:
        """`spec.replicas`, which is 1 where it is absent."""
        return number(self.document, "spec", "replicas", default=1)

    def at(self, *path: str) -> Any:
        """The value at a path, or ABSENT."""
        return tolerant(self.document, *path)

    def condition(self, kind: str) -> Mapping[str, Any]:
        """The first condition of a type; empty if there is none."""
        found = (c for c in self.conditions() if c.get("type") == kind)
        return next(found, {})

    def true(self, kind: str) -> bool:
        """Whether a condition of that type is True."""
        found = (c for c in self.conditions() if c.get("type") == kind)
        return any(condition.get("status") == "True" for condition in found)

    def conditions(self) -> list[Mapping[str, Any]]:
        """Those items of `status.conditions` that are objects."""
        found = self.at("status", "conditions")
        items = found if isinstance(found, list) else []
        return [item for item in items if isinstance(item, Mapping)]

    def observed(self) -> bool:
        """Whether `status.observedGeneration` is there, whatever it holds."""
        return self.at("status", "observedGeneration") is not ABSENT

    def lag(self) -> int:
        """`metadata.generation` less `status.observedGeneration`, 0 for those absent."""
        return number(self.document, "metadata", "generation") - self.count("observedGeneration")
