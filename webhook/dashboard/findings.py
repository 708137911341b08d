"""The pages of findings: filtered, the worst and latest first.

Each comes with what happened in one of its writes, and with the change that ends it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import structs

from webhook.dashboard.page import (
    MissingError,
    PageContext,
    PageData,
    check_parameters,
    choice,
    number,
)
from webhook.dashboard.runbook import runbook_of
from webhook.detection.causes import by_cause
from webhook.detection.detectors import ALL
from webhook.detection.finding import Finding, Severity
from webhook.detection.fix import Installation, with_fix
from webhook.detection.ledger import MOST_FINDINGS

STATES: Final = ("open", "quiet", "resolved", "all")
"""`open` includes quiet findings: they are not resolved, but show no new signal."""
DETECTORS: Final = tuple(sorted(one.name for one in ALL))
SEVERITIES: Final = tuple(reversed(Severity))
MOST_WITH_FIX: Final = 1_000
"""Findings of one answer that come with their fix and diff: for more it would take seconds and
megabytes."""
_ROWS: Final = 100
_PARAMETERS: Final = ("q", "severity", "namespace", "detector", "state", "page", "limit")
_SEVERITY_RANK: Final = {severity: rank for rank, severity in enumerate(SEVERITIES)}


class FindingQuery(msgspec.Struct, frozen=True):
    """The filters of a request; an empty value is no filter. `q` searches all shown text."""

    q: str
    severity: str
    namespace: str
    detector: str
    state: str
    page: int
    limit: int

    @property
    def filters(self) -> dict[str, str]:
        """The parameters of links to other pages of the same findings."""
        names = ("q", "severity", "namespace", "detector", "state")
        return {name: getattr(self, name) for name in names}


class FindingsPage(msgspec.Struct, frozen=True):
    """One page of findings: `total` match; `open` counts all open findings by severity."""

    findings: tuple[Finding, ...]
    total: int
    open: dict[str, int]
    known: int
    page: int
    pages: int


def parse(query: Mapping[str, str], *, state: str, limit: int) -> FindingQuery:
    """Check the URL parameters; `state` and `limit` are the defaults.

    Raises BadQueryError.
    """
    check_parameters(query, _PARAMETERS)
    return FindingQuery(
        q=query.get("q", "").strip(),
        severity=choice(query, "severity", SEVERITIES),
        namespace=query.get("namespace", "").strip(),
        detector=choice(query, "detector", DETECTORS),
        state=choice(query, "state", STATES, state),
        page=number(query, "page", 1, MOST_FINDINGS),
        limit=number(query, "limit", limit, MOST_FINDINGS),
    )


def select(
    findings: Sequence[Finding], asked: FindingQuery, *, folds: bool = False
) -> FindingsPage:
    """Select one page. Up to 20 ms for the maximum of findings: run it in a thread.

    folds  leave out those that follow from a finding that is selected as well
    """
    found = sorted(_matching(findings, asked), key=lambda one: one.last_seen, reverse=True)
    if folds:
        ids = {one.id for one in found}
        found = [one for one in found if one.caused_by not in ids]
    found.sort(key=lambda one: (one.state == "resolved", _SEVERITY_RANK[one.severity]))
    pages = max(1, -(-len(found) // asked.limit))
    first = (min(asked.page, pages) - 1) * asked.limit
    is_open = Counter(one.severity for one in findings if one.state != "resolved")
    return FindingsPage(
        findings=tuple(found[first : first + asked.limit]),
        total=len(found),
        open={severity.value: is_open[severity] for severity in SEVERITIES},
        known=len(findings),
        page=min(asked.page, pages),
        pages=pages,
    )


def _matching(findings: Sequence[Finding], asked: FindingQuery) -> Iterator[Finding]:
    words = asked.q.casefold().split()
    for one in findings:
        if (
            _has_state(one, asked.state)
            and asked.severity in ("", one.severity)
            and asked.detector in ("", one.detector)
            and asked.namespace in ("", one.object.namespace)
            and (not words or _contains(one, words))
        ):
            yield one


def _has_state(one: Finding, state: str) -> bool:
    return state in ("all", one.state) or (state == "open" and one.state == "quiet")


def _contains(one: Finding, words: Sequence[str]) -> bool:
    where = one.object
    text = " ".join(
        (
            *(where.namespace, where.name, where.resource, where.group, where.uid),
            *(one.id, one.detector, one.severity, one.message, one.caused_by),
            *one.paths,
            *(f"{actor.name} {actor.field_manager}" for actor in one.actors),
        )
    ).casefold()
    return all(word in text for word in words)


async def load_open(context: PageContext, query: Mapping[str, str], _: float) -> PageData:
    """Return the HTML page: open findings by default, 100 on a page."""
    return await _seen(context, parse(query, state="open", limit=_ROWS), folds=True)


async def load_all(context: PageContext, query: Mapping[str, str], _: float) -> PageData:
    """Return the JSON: all findings by default, with fix and diff where they are not too many."""
    data = await _seen(context, parse(query, state="all", limit=MOST_FINDINGS))
    page: FindingsPage = data.model
    if len(page.findings) > MOST_WITH_FIX:
        return data
    return data._replace(model=structs.replace(page, findings=await _whole(context, page.findings)))


async def load_finding(context: PageContext, query: Mapping[str, str], _: float) -> PageData:
    """Return one finding by its id; raises MissingError."""
    known = context.sources.detecting.findings()
    for found in known:
        if found.id == query["id"]:
            cause = next((one for one in known if one.id == found.caused_by), None)
            (whole,) = await _whole(context, (found,))
            sources = context.sources
            mode, enforce = sources.about().get("mode", ""), sources.enforce()
            values = {
                "cause": cause,
                "follows": by_cause(known).get(found.id, ()),
                "page": runbook_of(whole, mode, enforce),
            }
            return PageData(whole, values)
    raise MissingError(
        "No finding has this id. Newer findings may have replaced it, this server may have "
        "restarted, or another replica has it: each replica has its own findings."
    )


async def _whole(context: PageContext, found: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return findings with what happened and what ends them."""
    sources = context.sources
    samples = sources.detecting.detection.ledger.samples({one.id for one in found})
    registered = sources.suspects.registered
    enforcing = sources.about().get("mode") == "enforcing"
    installation = Installation(enforcing, sources.enforce(), sources.connected)

    return await context.queue.in_thread(
        lambda: tuple(with_fix(one, registered, installation, samples.get(one.id)) for one in found)
    )


async def _seen(context: PageContext, asked: FindingQuery, *, folds: bool = False) -> PageData:
    known = context.sources.detecting.findings()
    page, follows = await context.queue.in_thread(
        lambda: (select(known, asked, folds=folds), by_cause(known) if folds else {})
    )
    choices = {"states": STATES, "detectors": DETECTORS, "severities": SEVERITIES}
    return PageData(page, {"asked": asked, "follows": follows, **choices})
