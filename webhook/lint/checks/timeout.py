"""A long timeoutSeconds: how long each write hangs while the webhook is away."""

from collections.abc import Iterator
from typing import ClassVar, Final

from webhook.lint.check import Surroundings, told
from webhook.lint.finding import Level, LintFinding
from webhook.lint.hook import Hook

_DEFAULT: Final = 10
_ALLOWED: Final = range(1, 31)


class Timeout:
    """See the module."""

    id: ClassVar[str] = "timeout-long"
    reason: ClassVar[str] = (
        "Kubernetes, Admission Webhook Good Practices: use a small timeout; the API server allows "
        "1 to 30 s"
    )

    def look(self, hook: Hook, around: Surroundings) -> Iterator[LintFinding]:
        """One finding a webhook."""
        del around
        field = hook.field("timeoutSeconds")
        if hook.timeout not in _ALLOWED:
            message = f"timeoutSeconds {hook.timeout} is refused by the API server: set 1 to 30"
            yield told(self, Level.ERROR, hook, field, message)
        elif hook.timeout > _DEFAULT:
            message = (
                f"each matching write hangs for {hook.timeout} s while the webhook does not "
                "answer: a few seconds are enough"
            )
            yield told(self, Level.WARNING, hook, field, message)
