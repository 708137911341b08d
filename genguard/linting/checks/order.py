"""Webhooks are called in the order of their names as text: 10-x is called before 9-y."""

import re
from collections.abc import Iterator
from typing import Final

from genguard.linting.check import Check, Level, LintContext, Problem
from genguard.linting.hook import Hook, overlap

_NUMBER: Final = re.compile(r"[0-9]{1,18}")


def find_problems(hook: Hook, context: LintContext) -> Iterator[Problem]:
    """Report a webhook that is called before another one although its number is higher."""
    mine = _NUMBER.match(hook.configuration)
    if not hook.mutates or mine is None:
        return
    for other in context.mutating:
        theirs = _NUMBER.match(other.configuration)
        if theirs is None or not overlap(hook, other):
            continue
        if int(mine[0]) > int(theirs[0]) and hook.order < other.order:
            yield Problem(
                Level.WARNING,
                "metadata.name",
                f"is called before {other.configuration} although its number is higher: give both "
                "numbers the same count of digits",
            )
            return


CHECK: Final = Check(
    "order-of-numbers",
    "apiserver pkg/admission/configuration/mutating_webhook_manager.go sorts configurations "
    "by name as text: 10-x comes before 9-y",
    find_problems,
)
