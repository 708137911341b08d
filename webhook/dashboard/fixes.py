"""Findings as their pages show them: with the change that ends each."""

from collections.abc import Mapping
from typing import Final

from msgspec import structs

from webhook.dashboard import findings
from webhook.dashboard.findings import FindingsPage
from webhook.dashboard.page import PageContext, PageData
from webhook.detection.finding import Finding
from webhook.detection.fix import with_fix

MOST_WITH_FIX: Final = 1_000
"""Findings of one answer that come with their fix: for more it would take seconds and megabytes."""


async def load_finding(context: PageContext, query: Mapping[str, str], now: float) -> PageData:
    """Return one finding by its id; raises MissingError."""
    data = await findings.load_finding(context, query, now)
    return data._replace(model=_fixed(context, data.model)[0])


async def load_all(context: PageContext, query: Mapping[str, str], now: float) -> PageData:
    """Return the JSON: all findings by default, with their fix where they are not too many."""
    data = await findings.load_all(context, query, now)
    page: FindingsPage = data.model
    if len(page.findings) > MOST_WITH_FIX:
        return data
    fixed = await context.queue.in_thread(lambda: _fixed(context, *page.findings))
    return data._replace(model=structs.replace(page, findings=fixed))


def _fixed(context: PageContext, *found: Finding) -> tuple[Finding, ...]:
    registered = context.sources.suspects.registered
    enforcing = context.sources.about().get("mode") == "enforcing"
    return tuple(with_fix(one, registered, enforcing=enforcing) for one in found)
