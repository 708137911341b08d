"""sideEffects: a webhook that may have some makes every dry run fail."""

from collections.abc import Iterator
from typing import ClassVar, Final

from webhook.lint.check import Surroundings, told
from webhook.lint.finding import Level, LintFinding
from webhook.lint.hook import Hook, text

_GOOD: Final = frozenset({"None", "NoneOnDryRun"})


class SideEffects:
    """See the module."""

    id: ClassVar[str] = "side-effects"
    reason: ClassVar[str] = (
        "admissionregistration.k8s.io/v1 requires None or NoneOnDryRun; with any other the API "
        "server refuses dry runs (kubectl diff, server-side apply previews)"
    )

    def look(self, hook: Hook, around: Surroundings) -> Iterator[LintFinding]:
        """One finding a webhook."""
        del around
        given = hook.body.get("sideEffects")
        if text(given) not in _GOOD:
            yield told(
                self,
                Level.ERROR,
                hook,
                hook.field("sideEffects"),
                f"is {text(given) or 'not set'}: set None, or NoneOnDryRun and do nothing else "
                "than answer when request.dryRun is true",
            )
