"""`*` and `*/*`: every write of a cluster waits for the webhook, those it needs itself included."""

from collections.abc import Iterator
from typing import ClassVar

from webhook.lint.check import Surroundings, told
from webhook.lint.finding import Level, LintFinding
from webhook.lint.hook import Hook


class WildcardResources:
    """See the module."""

    id: ClassVar[str] = "wildcard-resources"
    reason: ClassVar[str] = (
        "Kubernetes, Admission Webhook Good Practices: limit the scope of each webhook; "
        "`*` leaves subresources out, `*/*` takes in leases, tokens and events"
    )

    def look(self, hook: Hook, around: Surroundings) -> Iterator[LintFinding]:
        """One finding a wildcard."""
        del around
        for rule in hook.rules:
            for index, name in enumerate(rule.resources):
                if name not in ("*", "*/*"):
                    continue
                every = "*" in rule.groups
                where = hook.field(f"rules[{rule.position}].resources[{index}]")
                kinds = "every resource of every group" if every else f"all of {rule.groups}"
                yield told(
                    self,
                    Level.ERROR if every and hook.fails else Level.WARNING,
                    hook,
                    where,
                    f"`{name}` matches {kinds}"
                    + (" with failurePolicy Fail" if hook.fails else "")
                    + ": name the resources, and their subresources, that are meant",
                )
