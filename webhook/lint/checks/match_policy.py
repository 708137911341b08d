"""matchPolicy Exact: a write through another version of the API passes by."""

from collections.abc import Iterator
from typing import ClassVar

from webhook.lint.check import Surroundings, told
from webhook.lint.finding import Level, LintFinding
from webhook.lint.hook import Hook, text, texts


class MatchPolicy:
    """See the module."""

    id: ClassVar[str] = "match-policy-exact"
    reason: ClassVar[str] = (
        "Kubernetes, Dynamic Admission Control: Equivalent, the default of v1, makes sure that "
        "upgrades and other versions do not go round a webhook"
    )

    def look(self, hook: Hook, around: Surroundings) -> Iterator[LintFinding]:
        """One finding a webhook."""
        del around
        if text(hook.body.get("matchPolicy")) != "Exact" or self._names_every_version(hook):
            return
        yield told(
            self,
            Level.WARNING,
            hook,
            hook.field("matchPolicy"),
            "Exact: a request through another version of the same resource is not seen: set "
            "Equivalent",
        )

    def _names_every_version(self, hook: Hook) -> bool:
        rules = hook.body.get("rules")
        return isinstance(rules, list) and all(
            isinstance(rule, dict) and "*" in texts(rule.get("apiVersions")) for rule in rules
        )
