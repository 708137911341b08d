"""`*` and `*/*`: every write waits for the webhook, also those that it needs itself."""

from collections.abc import Iterator
from typing import Final

from genguard.linting.check import Check, Level, LintContext, Problem
from genguard.linting.hook import Hook


def find_problems(hook: Hook, _: LintContext) -> Iterator[Problem]:
    """Report each wildcard among the resources of the rules."""
    for rule in hook.rules:
        for index, name in enumerate(rule.resources):
            if name not in ("*", "*/*"):
                continue
            every = "*" in rule.groups
            scope = (
                "every resource of every group"
                if every
                else f"all of {', '.join(group or 'core' for group in rule.groups)}"
            )
            policy = " with failurePolicy Fail" if hook.fails else ""
            yield Problem(
                Level.ERROR if every and hook.fails else Level.WARNING,
                hook.field(f"rules[{rule.position}].resources[{index}]"),
                f"`{name}` matches {scope}{policy}: name the resources and subresources that you "
                "need",
            )


CHECK: Final = Check(
    "wildcard-resources",
    "Kubernetes, Admission Webhook Good Practices: limit the scope of each webhook; "
    "`*` excludes subresources, `*/*` includes leases, tokens and events",
    find_problems,
)
