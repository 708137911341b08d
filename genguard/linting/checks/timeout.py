"""A long timeoutSeconds: how long each write waits while the webhook is down."""

from collections.abc import Iterator
from typing import Final

from genguard.linting.check import Check, Level, LintContext, Problem
from genguard.linting.hook import Hook

_DEFAULT: Final = 10
_ALLOWED: Final = range(1, 31)


def find_problems(hook: Hook, _: LintContext) -> Iterator[Problem]:
    """Report a timeout beyond the default, and one that the API server rejects."""
    field = hook.field("timeoutSeconds")
    if hook.timeout not in _ALLOWED:
        message = f"the API server rejects timeoutSeconds {hook.timeout}: set 1 to 30"
        yield Problem(Level.ERROR, field, message)
    elif hook.timeout > _DEFAULT:
        message = (
            f"each matching write waits {hook.timeout} s while the webhook does not answer: set a "
            "few seconds"
        )
        yield Problem(Level.WARNING, field, message)


CHECK: Final = Check(
    "timeout-long",
    "Kubernetes, Admission Webhook Good Practices: use a small timeout; the API server allows "
    "1 to 30 s",
    find_problems,
)
