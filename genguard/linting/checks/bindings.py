"""pods/binding: nothing is scheduled while such a webhook is down or slow."""

from collections.abc import Iterator
from typing import Final

from genguard.linting.check import Check, Level, LintContext, Problem
from genguard.linting.hook import Hook, Target

_TARGET: Final = Target("", "pods", "binding", "CREATE")


def find_problems(hook: Hook, _: LintContext) -> Iterator[Problem]:
    """Report each rule that matches pods/binding."""
    level = Level.ERROR if hook.fails else Level.WARNING
    for field in hook.covering(_TARGET):
        message = "matches pods/binding, so scheduling waits for it: leave out this subresource"
        yield Problem(level, field, message)


CHECK: Final = Check(
    "pods-binding",
    "the scheduler binds each pod by POST pods/binding (kubernetes pkg/scheduler/framework/"
    "plugins/defaultbinder), so such a webhook delays every pod",
    find_problems,
)
