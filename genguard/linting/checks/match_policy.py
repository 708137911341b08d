"""matchPolicy Exact: requests in another API version do not reach the webhook."""

from collections.abc import Iterator
from typing import Final

from genguard.linting.check import Check, Level, LintContext, Problem
from genguard.linting.hook import Hook, text, texts


def find_problems(hook: Hook, _: LintContext) -> Iterator[Problem]:
    """Report matchPolicy Exact, unless the rules match every API version."""
    if text(hook.body.get("matchPolicy")) == "Exact" and not _matches_every_version(hook):
        yield Problem(
            Level.WARNING,
            hook.field("matchPolicy"),
            "Exact: requests for the same resource in another API version do not reach the "
            "webhook: set Equivalent",
        )


def _matches_every_version(hook: Hook) -> bool:
    rules = hook.body.get("rules")
    return isinstance(rules, list) and all(
        isinstance(rule, dict) and "*" in texts(rule.get("apiVersions")) for rule in rules
    )


CHECK: Final = Check(
    "match-policy-exact",
    "Kubernetes, Dynamic Admission Control: with Equivalent, the default of v1, requests in "
    "other API versions reach the webhook too, also after an upgrade",
    find_problems,
)
