"""pods/binding: while such a webhook is away or slow, nothing is scheduled."""

from collections.abc import Iterator
from typing import ClassVar, Final

from webhook.lint.check import Surroundings, told
from webhook.lint.finding import Level, LintFinding
from webhook.lint.hook import Hook, Target

_TARGET: Final = Target("", "pods", "binding", "CREATE")


class Bindings:
    """See the module."""

    id: ClassVar[str] = "pods-binding"
    reason: ClassVar[str] = (
        "the scheduler binds each pod by POST pods/binding (kubernetes pkg/scheduler/framework/"
        "plugins/defaultbinder): a webhook there is in the way of every pod"
    )

    def look(self, hook: Hook, around: Surroundings) -> Iterator[LintFinding]:
        """One finding a rule."""
        del around
        for field in hook.covering(_TARGET):
            yield told(
                self,
                Level.ERROR if hook.fails else Level.WARNING,
                hook,
                field,
                "matches pods/binding, so scheduling waits for it: leave the subresource out",
            )
