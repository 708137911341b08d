"""A webhook about status whose rules match no status: it is never called for what it is for."""

from collections.abc import Iterator
from typing import ClassVar, Final

from webhook.lint.check import Surroundings, told
from webhook.lint.finding import Level, LintFinding
from webhook.lint.hook import Hook, text

_STATUS: Final = "status"


class StatusMeant:
    """See the module."""

    id: ClassVar[str] = "status-subresource-missing"
    reason: ClassVar[str] = (
        "apiserver pkg/admission/plugin/webhook/predicates/rules: `pods` and `*` match no "
        "subresource; status is written on pods/status"
    )

    def look(self, hook: Hook, around: Surroundings) -> Iterator[LintFinding]:
        """One finding a webhook."""
        del around
        words = f"{text(hook.body.get('name'))} {hook.path}".lower()
        subresources = {name.partition("/")[2] for rule in hook.rules for name in rule.resources}
        if _STATUS in words and not subresources & {_STATUS, "*"} and subresources:
            yield told(
                self,
                Level.WARNING,
                hook,
                hook.field("rules"),
                "its name speaks of status and no rule matches a status subresource, so it does "
                "not see status being written: add `<resource>/status`",
            )
