"""A webhook named after status whose rules match no status subresource."""

from collections.abc import Iterator
from typing import Final

from genguard.linting.check import Check, Level, LintContext, Problem
from genguard.linting.hook import Hook, text

_STATUS: Final = "status"


def find_problems(hook: Hook, _: LintContext) -> Iterator[Problem]:
    """Report a webhook with `status` in its name or path that is never called for status."""
    names = f"{text(hook.body.get('name'))} {hook.path}".lower()
    subresources = {name.partition("/")[2] for rule in hook.rules for name in rule.resources}
    if _STATUS in names and not subresources & {_STATUS, "*"} and subresources:
        yield Problem(
            Level.WARNING,
            hook.field("rules"),
            "its name or path contains `status`, but no rule matches a status subresource, so it "
            "is not called when status is written: add `<resource>/status`",
        )


CHECK: Final = Check(
    "status-subresource-missing",
    "apiserver pkg/admission/plugin/webhook/predicates/rules: `pods` and `*` match no "
    "subresource; status is written to pods/status",
    find_problems,
)
