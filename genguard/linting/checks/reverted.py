"""Checks that nobody writes back the rules that genguard's own server keeps."""

from collections.abc import Iterator

from genguard.linting.check import Level, LintContext, Problem, webhook_check
from genguard.linting.hook import FOLLOWED, GENGUARD, Hook


@webhook_check(
    "registrations-reverted",
    "`genguard serve --registrations follow` writes the rules of its own mutating webhooks, and a "
    "tool that applies its manifests again and again writes them back: docs/registrations.md",
)
def registrations_reverted(hook: Hook, context: LintContext) -> Iterator[Problem]:
    """Report rules of genguard's own webhook that somebody else has written after its server."""
    del context
    by = hook.rules_writer
    if hook.own_phase and FOLLOWED in hook.annotations and by not in ("", GENGUARD):
        yield Problem(
            Level.WARNING,
            hook.field("rules"),
            f"are written by {by} too, against genguard's server, which then leaves them as they "
            f"are: let {by} ignore /webhooks/0/rules of this configuration, or start the server "
            "with --registrations fixed",
        )
