"""The home page and the findings: filtered, in groups, and as JSON."""

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any, Final

import msgspec
from msgspec import structs

from genguard.detection.causes import beneath
from genguard.detection.finding import Finding, FixStep
from genguard.detection.fix import Installation, with_fix
from genguard.detection.ledger import MOST_FINDINGS
from genguard.detection.sample import shown_diff
from webhook.alerts.alertmanager import silence_form
from webhook.dashboard.broken import Broken, find_broken
from webhook.dashboard.finding_lists import (
    DETECTORS,
    SEVERITIES,
    STATES,
    FindingQuery,
    arrange,
    count_open,
    parse,
)
from webhook.dashboard.headlines import Happening, KindOf, above_of, happening, kinds
from webhook.dashboard.page import MissingError, PageContext, PageData, Sources, part_of
from webhook.dashboard.runbook import runbook_of

MOST_WITH_FIX: Final = 1_000
"""Findings of one answer that come with their fix and diff: for more it would take seconds and
megabytes."""
_ROWS: Final = 100


class FindingsPage(msgspec.Struct, frozen=True):
    """One page of findings: `total` match; `open` counts all open findings by severity.

    note  why nothing can be found of what was asked about; "" where something could be
    """

    findings: tuple[Finding, ...]
    total: int
    open: dict[str, int]
    known: int
    page: int
    pages: int
    note: str = ""


def select(findings: Sequence[Finding], asked: FindingQuery, now: float) -> FindingsPage:
    """Select one page. Up to 50 ms for the maximum of findings: run it in a thread."""
    found = asked.find(findings, now)
    shown, page, pages = part_of(found, asked.page, asked.limit)
    return FindingsPage(tuple(shown), len(found), count_open(findings), len(findings), page, pages)


async def load_home(context: PageContext, query: Mapping[str, str], now: float) -> PageData:
    """Return the home page: what is broken, and open findings in groups by default."""
    asked = parse(query, state="open", limit=_ROWS)
    sources = context.sources
    known = sources.detecting.findings()
    broken = await find_broken(sources, known, context.queue, now)
    kind_of, tracked = kinds_of(context.sources), len(sources.detecting.tracking)
    data = await context.queue.in_thread(lambda: home(known, asked, broken, now, kind_of))
    shown = [row.finding for group in data.model.groups for row in group.rows]
    values = {
        **data.values,
        "tracked": tracked,
        "connected": sources.connected,
        **await _first_screen(context, asked, shown),
    }
    return data._replace(values=values)


async def _first_screen(
    context: PageContext, asked: FindingQuery, shown: Sequence[Finding]
) -> Mapping[str, object]:
    """Return the values of each row, and for the worst finding the first step that ends it."""
    samples = context.sources.detecting.detection.ledger.samples({finding.id for finding in shown})
    is_first = asked.is_usual and shown and shown[0].state != "resolved"
    first = (await _with_fixes(context, shown[:1]))[0] if is_first else None

    def happenings() -> dict[str, Happening | None]:
        diffs = {name: shown_diff(raw) for name, raw in samples.items()}
        return {
            finding.id: happening(structs.replace(finding, diff=diffs.get(finding.id)))
            for finding in shown
        }

    return {
        "happenings": await context.queue.in_thread(happenings),
        "first": first,
        "first_step": None if first is None else first_step(first),
    }


def first_step(found: Finding) -> FixStep | None:
    """Return the first step with something to copy, or else the first one."""
    with_text = (step for step in found.fix if step.command or step.stanza)
    return next(with_text, next(iter(found.fix), None))


def home(
    known: Sequence[Finding], asked: FindingQuery, broken: Broken, now: float, kind_of: KindOf
) -> PageData:
    """Return the home page of these findings. Up to 100 ms: run it in a thread."""
    found, above = asked.find(known, now), above_of(known)
    values = {
        "known": len(known),
        "asked": asked,
        "broken": broken,
        "going_on": count_open(finding for finding in known if not finding.is_ending(now)),
        "repaired": sum(finding.restored and finding.id not in above for finding in known),
        "states": STATES,
        "detectors": DETECTORS,
        "severities": SEVERITIES,
        "again": _again(known, now),
    }
    return PageData(arrange(found, known, asked, broken.not_settled, kind_of), values)


def _again(known: Iterable[Finding], now: float) -> float | str:
    """Return the seconds until one of them is shown in another way, though nothing happens."""
    return min((at - now for finding in known for at in finding.ends if now < at < inf), default="")


async def load_all(context: PageContext, query: Mapping[str, str], now: float) -> PageData:
    """Return the JSON: all findings by default, with fix and diff where they are not too many."""
    asked = parse(query, state="all", limit=MOST_FINDINGS)
    known = context.sources.detecting.findings()
    page = await context.queue.in_thread(lambda: select(known, asked, now))
    if len(page.findings) <= MOST_WITH_FIX:
        page = structs.replace(page, findings=await _with_fixes(context, page.findings))
    if not page.total:
        why = context.sources.coverage.why_nothing(asked.kind, asked.namespace)
        page = structs.replace(page, note=why)
    return PageData(page, {})


async def load_finding(context: PageContext, query: Mapping[str, str], now: float) -> PageData:
    """Return one finding by its id; raises MissingError."""
    known = context.sources.detecting.findings()
    for found in known:
        if found.id == query["id"]:
            above = await context.queue.in_thread(lambda: above_of(known))
            cause = next((finding for finding in known if finding.id == above.get(found.id)), None)
            (detailed,) = await _with_fixes(context, (found,))
            sources = context.sources
            mode, enforce = sources.about().get("mode", ""), sources.enforce()
            values: dict[str, Any] = {
                "again": _again((found,), now),
                "cause": cause,
                "consequences": beneath(known, above).get(found.id, ()),
                "page": runbook_of(detailed, mode, enforce),
            }
            if sources.alertmanager:
                values["silence_url"] = silence_form(sources.alertmanager, detailed)
            return PageData(detailed, values)
    raise MissingError(
        "No finding has this id. Newer findings may have replaced it, this server may have "
        "restarted, or another replica has it: each replica has its own findings."
    )


async def _with_fixes(context: PageContext, found: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return findings with what happened and what ends them."""
    sources = context.sources
    detection = sources.detecting.detection
    samples = detection.ledger.samples({finding.id for finding in found})
    histories = detection.history.snapshot() if sources.detecting.detects else None
    registered = sources.mutators.registered
    enforcing = sources.about().get("mode") == "enforcing"
    installation = Installation(enforcing, sources.enforce(), sources.connected)

    return await context.queue.in_thread(
        lambda: tuple(
            with_fix(finding, registered, installation, samples.get(finding.id), histories)
            for finding in found
        )
    )


def kinds_of(sources: Sources) -> KindOf:
    """Return the kinds of all resources that this server knows."""
    return kinds(kind for kind, _ in sources.detecting.tracking.counts_by_kind)
