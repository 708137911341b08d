"""The home page and the findings: filtered, sorted, in groups, as JSON and as CSV."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import structs

from genguard.detection.causes import by_cause
from genguard.detection.detectors import ALL
from genguard.detection.finding import Finding, Severity
from genguard.detection.fix import Installation, with_fix
from genguard.detection.ledger import MOST_FINDINGS
from webhook.dashboard.broken import Broken, find_broken
from webhook.dashboard.grouping import (
    GROUPINGS,
    ORDERS,
    SORTS,
    USUAL_ORDER,
    GroupedPage,
    Grouping,
    arrange,
    sorted_findings,
)
from webhook.dashboard.headlines import KindOf, culprit, kinds
from webhook.dashboard.page import (
    BadQueryError,
    MissingError,
    PageContext,
    PageData,
    Sources,
    check_parameters,
    choice,
    number,
)
from webhook.dashboard.rendering import parse_time
from webhook.dashboard.runbook import runbook_of

STATES: Final = ("open", "quiet", "resolved", "all")
"""`open` includes quiet findings: they are not resolved, but show no new signal."""
DETECTORS: Final = tuple(sorted(one.name for one in ALL))
SEVERITIES: Final = tuple(reversed(Severity))
RANGES: Final = ("15m", "1h", "6h", "24h", "7d")
"""Time ranges that the page offers; a URL may have any other number of s, m, h or d."""
MOST_WITH_FIX: Final = 1_000
"""Findings of one answer that come with their fix and diff: for more it would take seconds and
megabytes."""
_ROWS: Final = 100
_FILTERS: Final = ("q", "severity", "namespace", "detector", "culprit", "state", "since")
_ARRANGED: Final = ("group", "sort", "order")
_PARAMETERS: Final = (*_FILTERS, *_ARRANGED, "page", "limit")
_DURATION: Final = re.compile(r"([0-9]{1,6})([smhd])")
_SECONDS_OF: Final = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_NO_KINDS: Final[KindOf] = kinds(())


class FindingQuery(msgspec.Struct, frozen=True):
    """The filters of a request; an empty value is no filter. `q` searches all shown text.

    culprit  as webhook/dashboard/headlines.py names it
    since    findings with a sign within this time, such as 24h
    group    what the page groups by; sort and order: by which column, in which direction
    """

    q: str
    severity: str
    namespace: str
    detector: str
    culprit: str
    state: str
    since: str
    group: str
    sort: str
    order: str
    page: int
    limit: int

    @property
    def filters(self) -> dict[str, str]:
        """The parameters of links to other pages of the same findings."""
        return {name: getattr(self, name) for name in (*_FILTERS, *_ARRANGED)}

    @property
    def is_narrow(self) -> bool:
        """Whether a filter other than the state leaves findings out."""
        return any(getattr(self, name) for name in _FILTERS if name != "state")


class FindingsPage(msgspec.Struct, frozen=True):
    """One page of findings: `total` match; `open` counts all open findings by severity."""

    findings: tuple[Finding, ...]
    total: int
    open: dict[str, int]
    known: int
    page: int
    pages: int


class HomePage(msgspec.Struct, frozen=True):
    """The findings of the home page in groups; see FindingsPage."""

    groups: GroupedPage
    total: int
    open: dict[str, int]
    known: int


def parse(query: Mapping[str, str], *, state: str, limit: int) -> FindingQuery:
    """Check the URL parameters; `state` and `limit` are the defaults.

    Raises BadQueryError.
    """
    check_parameters(query, _PARAMETERS)
    sort = choice(query, "sort", SORTS, SORTS[0])
    since = query.get("since", "").strip()
    if since and _DURATION.fullmatch(since) is None:
        raise BadQueryError("since must be a number with s, m, h or d, such as 24h")
    return FindingQuery(
        q=query.get("q", "").strip(),
        severity=choice(query, "severity", SEVERITIES),
        namespace=query.get("namespace", "").strip(),
        detector=choice(query, "detector", DETECTORS),
        culprit=query.get("culprit", "").strip(),
        state=choice(query, "state", STATES, state),
        since=since,
        group=choice(query, "group", GROUPINGS, GROUPINGS[0]),
        sort=sort,
        order=choice(query, "order", ORDERS, USUAL_ORDER[sort]),
        page=number(query, "page", 1, MOST_FINDINGS),
        limit=number(query, "limit", limit, MOST_FINDINGS),
    )


def select(
    findings: Sequence[Finding], asked: FindingQuery, now: float, kind_of: KindOf = _NO_KINDS
) -> FindingsPage:
    """Select one page. Up to 50 ms for the maximum of findings: run it in a thread."""
    found = _found(findings, asked, now, kind_of)
    pages = max(1, -(-len(found) // asked.limit))
    first = (min(asked.page, pages) - 1) * asked.limit
    return FindingsPage(
        findings=tuple(found[first : first + asked.limit]),
        total=len(found),
        open=_count_open(findings),
        known=len(findings),
        page=min(asked.page, pages),
        pages=pages,
    )


def _found(
    findings: Iterable[Finding], asked: FindingQuery, now: float, kind_of: KindOf
) -> list[Finding]:
    matching = _matching(findings, asked, now)
    return sorted_findings(matching, asked.sort, asked.order, kind_of)


def _count_open(findings: Iterable[Finding]) -> dict[str, int]:
    is_open = Counter(one.severity for one in findings if one.state != "resolved")
    return {severity.value: is_open[severity] for severity in SEVERITIES}


def _matching(findings: Iterable[Finding], asked: FindingQuery, now: float) -> Iterator[Finding]:
    words = asked.q.casefold().split()
    oldest = 0.0
    if found := _DURATION.fullmatch(asked.since):
        oldest = now - int(found[1]) * _SECONDS_OF[found[2]]
    for one in findings:
        if (
            _has_state(one, asked.state)
            and asked.severity in ("", one.severity)
            and asked.detector in ("", one.detector)
            and asked.namespace in ("", one.object.namespace)
            and (not oldest or parse_time(one.last_seen) >= oldest)
            and (not asked.culprit or culprit(one).name == asked.culprit)
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
            *(f"{where.namespace}/{where.name}", one.state),
            *(one.id, one.detector, one.severity, one.message, one.caused_by),
            *one.paths,
            *(f"{actor.name} {actor.field_manager}" for actor in one.actors),
        )
    ).casefold()
    return all(word in text for word in words)


async def load_home(context: PageContext, query: Mapping[str, str], now: float) -> PageData:
    """Return the home page: what is broken, and open findings in groups by default."""
    asked = parse(query, state="open", limit=_ROWS)
    sources = context.sources
    known = sources.detecting.findings()
    broken = await find_broken(sources, known, context.queue, now)
    kind_of, tracked = kinds_of(context.sources), len(sources.detecting.tracking)
    data = await context.queue.in_thread(lambda: home(known, asked, broken, now, kind_of))
    return data._replace(values={**data.values, "tracked": tracked})


def home(
    known: Sequence[Finding],
    asked: FindingQuery,
    broken: Broken,
    now: float,
    kind_of: KindOf = _NO_KINDS,
) -> PageData:
    """Return the home page of these findings. Up to 100 ms: run it in a thread."""
    found = _found(known, asked, now, kind_of)
    how = Grouping(asked.group, asked.sort, asked.order, asked.page)
    groups = arrange(found, known, how, broken.not_settled, kind_of)
    values = {
        "asked": asked,
        "broken": broken,
        "going_on": _count_open(one for one in known if not one.is_ending(now)),
        "given": {name: getattr(asked, name) for name in _FILTERS},
        "states": STATES,
        "detectors": DETECTORS,
        "severities": SEVERITIES,
        "groupings": GROUPINGS,
        "ranges": RANGES if asked.since in ("", *RANGES) else (*RANGES, asked.since),
        "usual_order": USUAL_ORDER,
    }
    return PageData(HomePage(groups, len(found), _count_open(known), len(known)), values)


async def load_all(context: PageContext, query: Mapping[str, str], now: float) -> PageData:
    """Return the JSON: all findings by default, with fix and diff where they are not too many."""
    page = await _selected(context, query, now)
    if len(page.findings) > MOST_WITH_FIX:
        return PageData(page, {})
    return PageData(structs.replace(page, findings=await _whole(context, page.findings)), {})


async def load_rows(context: PageContext, query: Mapping[str, str], now: float) -> PageData:
    """Return the findings of `load_all`, each as the row of a table."""
    page = await _selected(context, query, now)
    rows = await context.queue.in_thread(lambda: tuple(map(to_row, page.findings)))
    return PageData(FindingRows(rows), {})


async def _selected(context: PageContext, query: Mapping[str, str], now: float) -> FindingsPage:
    asked = parse(query, state="all", limit=MOST_FINDINGS)
    known, kind_of = context.sources.detecting.findings(), kinds_of(context.sources)
    return await context.queue.in_thread(lambda: select(known, asked, now, kind_of))


class FindingRow(msgspec.Struct, frozen=True, rename="camel"):
    """A finding as the row of a table, with one text or number in each cell."""

    id: str
    severity: str
    state: str
    detector: str
    culprit: str
    confidence: str
    group: str
    resource: str
    namespace: str
    name: str
    uid: str
    subresource: str
    count: int
    first_seen: str
    last_seen: str
    caused_by: str
    message: str


class FindingRows(msgspec.Struct, frozen=True):
    """The rows of /api/findings.csv."""

    findings: tuple[FindingRow, ...]


def to_row(found: Finding) -> FindingRow:
    """Return a finding as a row; the confidence is that of its first actor."""
    where = found.object
    return FindingRow(
        id=found.id,
        severity=found.severity,
        state=found.state,
        detector=found.detector,
        culprit=culprit(found).full,
        confidence=found.actors[0].confidence if found.actors else "",
        group=where.group,
        resource=where.resource,
        namespace=where.namespace,
        name=where.name,
        uid=where.uid,
        subresource=found.subresource,
        count=found.count,
        first_seen=found.first_seen,
        last_seen=found.last_seen,
        caused_by=found.caused_by,
        message=found.message,
    )


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


def kinds_of(sources: Sources) -> KindOf:
    """Return the kinds of all resources that this server knows."""
    return kinds(kind for kind, _ in sources.detecting.tracking.counts_by_kind)
