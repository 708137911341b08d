"""The order of calls is that of the bytes of names, which is not what numbers suggest."""

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from webhook.lint.check import Surroundings, told
from webhook.lint.finding import Level, LintFinding
from webhook.lint.hook import Hook
from webhook.lint.overlap import overlap

_NUMBER: Final = re.compile(r"[0-9]{1,18}")


class Order:
    """See the module."""

    id: ClassVar[str] = "order-of-numbers"
    reason: ClassVar[str] = (
        "apiserver pkg/admission/configuration/mutating_webhook_manager.go sorts configurations "
        "by name as strings: 10-x comes before 9-y"
    )

    def look(self, hook: Hook, around: Surroundings) -> Iterator[LintFinding]:
        """One finding for the webhook that is called too early."""
        mine = _NUMBER.match(hook.configuration)
        if not hook.mutates or mine is None:
            return
        for other in around.mutating:
            theirs = _NUMBER.match(other.configuration)
            if theirs is None or not overlap(hook, other):
                continue
            if int(mine[0]) > int(theirs[0]) and hook.order < other.order:
                yield told(
                    self,
                    Level.WARNING,
                    hook,
                    "metadata.name",
                    f"is called before {other.configuration}, against what the numbers say: "
                    "write them with equally many digits",
                )
                return
