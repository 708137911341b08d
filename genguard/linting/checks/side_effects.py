"""sideEffects: a webhook that may have side effects makes every dry run fail."""

from collections.abc import Iterator
from typing import Final

from genguard.linting.check import Check, Level, LintContext, Problem
from genguard.linting.hook import Hook, text

_ALLOWED: Final = frozenset({"None", "NoneOnDryRun"})


def find_problems(hook: Hook, _: LintContext) -> Iterator[Problem]:
    """Report any value but None and NoneOnDryRun."""
    value = text(hook.body.get("sideEffects"))
    if value not in _ALLOWED:
        yield Problem(
            Level.ERROR,
            hook.field("sideEffects"),
            f"is {value or 'not set'}: set None, or set NoneOnDryRun and have no side effects when "
            "request.dryRun is true",
        )


CHECK: Final = Check(
    "side-effects",
    "admissionregistration.k8s.io/v1 requires None or NoneOnDryRun; with any other value the API "
    "server rejects dry runs (kubectl diff, server-side apply previews)",
    find_problems,
)
