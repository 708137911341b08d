"""Lists of findings: what URL parameters choose, in order, and in groups. Pure.

A finding that follows from another is a consequence: it stands beneath its cause, in the group of
that cause. Objects that are not settled stand beneath the finding that is to blame.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from genguard.detection.causes import by_cause
from genguard.detection.detectors import ALL
from genguard.detection.finding import Finding, Severity
from genguard.detection.ledger import MOST_FINDINGS
from webhook.dashboard.broken import NotSettled
from webhook.dashboard.headlines import (
    KindOf,
    about,
    count_objects,
    culprit,
    group_headline,
    headline,
    predicate,
)
from webhook.dashboard.page import (
    begin_of_range,
    check_parameters,
    choice,
    has_words,
    number,
    part_of,
    time_range,
)
from webhook.dashboard.rendering import ENDING, parse_time, shown_severity

STATES: Final = ("open", "quiet", "resolved", "all")
"""`open` includes quiet findings: they are not resolved, but show no new signal."""
DETECTORS: Final = tuple(sorted(one.name for one in ALL))
SEVERITIES: Final = tuple(reversed(Severity))
GROUPINGS: Final = ("culprit", "object", "detector", "none")
ORDERS: Final = ("asc", "desc")
USUAL_ORDER: Final[Mapping[str, str]] = {
    "severity": "desc",
    "what": "asc",
    "since": "asc",
    "last": "desc",
    "count": "desc",
}
"""The columns that findings are sorted by, the usual one first."""
_FILTERS: Final = ("q", "severity", "namespace", "detector", "culprit", "state", "since")
_ARRANGED: Final = ("group", "sort", "order")


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
        """The parameters that choose findings."""
        return {name: getattr(self, name) for name in _FILTERS}

    @property
    def arranged(self) -> dict[str, str]:
        """The parameters of links to other pages of the same findings."""
        return {name: getattr(self, name) for name in (*_FILTERS, *_ARRANGED)}

    @property
    def is_narrow(self) -> bool:
        """Whether a filter other than the state leaves findings out."""
        return any(value for name, value in self.filters.items() if name != "state")

    @property
    def is_usual(self) -> bool:
        """Whether the worst of all open findings come first."""
        is_sorted = (self.sort, self.order) == ("severity", USUAL_ORDER["severity"])
        return is_sorted and self.page == 1 and self.state == "open" and not self.is_narrow

    def find(self, findings: Iterable[Finding], now: float, kind_of: KindOf) -> list[Finding]:
        """Return the findings that match, sorted: unresolved first, the worst and latest first.

        Latest is what began last: rows would change places with each sign.
        """
        found = sorted(
            self._matching(findings, now), key=lambda one: (one.first_seen, one.last_seen)
        )
        found.reverse()
        if self.sort != "severity":
            found.sort(key=lambda one: -one.severity.rank)
        column = _COLUMNS[self.sort]
        found.sort(key=lambda one: column(one, kind_of), reverse=self.order == "desc")
        found.sort(key=lambda one: one.state == "resolved")
        return found

    def _matching(self, findings: Iterable[Finding], now: float) -> Iterator[Finding]:
        words = self.q.casefold().split()
        begin = begin_of_range(self.since, now)
        for one in findings:
            if (
                _has_state(one, self.state)
                and self.severity in ("", one.severity)
                and self.detector in ("", one.detector)
                and (not self.namespace or self.namespace in _namespaces(one))
                and (not self.since or parse_time(one.last_seen) >= begin)
                and (not self.culprit or culprit(one).name == self.culprit)
                and (not words or has_words(words, _shown_text(one)))
            ):
                yield one


def parse(query: Mapping[str, str], *, state: str, limit: int) -> FindingQuery:
    """Check the URL parameters; `state` and `limit` are the defaults.

    Raises BadQueryError.
    """
    check_parameters(query, FindingQuery.__struct_fields__)
    sort = choice(query, "sort", USUAL_ORDER, "severity")
    return FindingQuery(
        q=query.get("q", "").strip(),
        severity=choice(query, "severity", SEVERITIES),
        namespace=query.get("namespace", "").strip(),
        detector=choice(query, "detector", DETECTORS),
        culprit=query.get("culprit", "").strip(),
        state=choice(query, "state", STATES, state),
        since=time_range(query),
        group=choice(query, "group", GROUPINGS, GROUPINGS[0]),
        sort=sort,
        order=choice(query, "order", ORDERS, USUAL_ORDER[sort]),
        page=number(query, "page", 1, MOST_FINDINGS),
        limit=number(query, "limit", limit, MOST_FINDINGS),
    )


def count_open(findings: Iterable[Finding]) -> dict[str, int]:
    """Return how many findings of each severity are not resolved, the worst first.

    What is part of another is counted with it.
    """
    is_open = Counter(
        one.severity for one in findings if one.state != "resolved" and not one.part_of
    )
    return {severity.value: is_open[severity] for severity in SEVERITIES}


def _has_state(one: Finding, state: str) -> bool:
    return state in ("all", one.state) or (state == "open" and one.state == "quiet")


def _namespaces(one: Finding) -> set[str]:
    return {where.namespace for where in (one.objects.examples if one.objects else (one.object,))}


def _shown_text(one: Finding) -> Iterator[str]:
    where = one.subject
    yield from (where.namespace, where.name, where.resource, where.group, where.uid)
    yield from (f"{where.namespace}/{where.name}", one.state)
    yield from (one.id, one.detector, one.severity, one.message, one.above)
    yield from one.paths
    yield from (f"{actor.name} {actor.field_manager}" for actor in one.actors)


_COLUMNS: Final[Mapping[str, Callable[[Finding, KindOf], Any]]] = {
    "severity": lambda one, _: one.severity.rank,
    "what": about,
    "since": lambda one, _: one.first_seen,
    "last": lambda one, _: one.last_seen,
    "count": lambda one, _: one.count,
}


ROWS: Final = 100
"""Rows of a page."""
MOST_GROUPS: Final = 20
LEAST_ROWS: Final = 5
"""Rows that each group shows at least; the rest of a large one is a link away."""
_MOST_BENEATH: Final = 5


class FindingRow(NamedTuple):
    """One finding and what comes of it; of much the first, and a number.

    consequences  findings that follow from it
    not_settled   objects that are not settled, for which it is to blame
    """

    finding: Finding
    headline: str
    consequences: tuple[Finding, ...]
    more_consequences: int
    not_settled: tuple[NotSettled, ...]
    more_not_settled: int


class FindingGroup(NamedTuple):
    """Findings that belong together, worst first; `more` of them are not shown.

    key       the filter that shows the whole group: name and value of a URL parameter
    headline  "" for a finding that stands alone
    """

    key: tuple[str, str]
    headline: str
    rows: tuple[FindingRow, ...]
    more: int

    @property
    def severity(self) -> Severity:
        """The worst severity in it."""
        return max((row.finding.severity for row in self.rows), key=lambda one: one.rank)

    def shown_severity(self, now: float) -> str:
        """Return the worst severity; ENDING where all of that severity only wait to be resolved."""
        worst = self.severity
        found = (row.finding for row in self.rows if row.finding.severity is worst)
        return ENDING if all(shown_severity(one, now) == ENDING for one in found) else worst


class GroupedPage(NamedTuple):
    """One page of groups; `shown` findings of it are rows."""

    groups: tuple[FindingGroup, ...]
    page: int
    pages: int
    shown: int


def arrange(
    found: Sequence[Finding],
    known: Sequence[Finding],
    asked: FindingQuery,
    not_settled: Sequence[NotSettled],
    kind_of: KindOf,
) -> GroupedPage:
    """Arrange findings that are sorted already into one page of groups.

    known        all findings: consequences are shown whether the filters match them or not
    not_settled  objects to show beneath the findings that are to blame
    """
    ids = {one.id for one in found}
    # Where the cause is filtered out, what follows from it stands alone.
    heads = [one for one in found if not one.above or one.above not in ids]
    blamed: dict[str, list[NotSettled]] = {}
    for thing in not_settled:
        blamed.setdefault(thing.finding, []).append(thing)
    if asked.sort == "severity" and asked.order == "desc":
        # Of equal severity, what keeps objects from being settled comes first.
        heads.sort(
            key=lambda one: (one.state == "resolved", -one.severity.rank, one.id not in blamed)
        )
    maker = _Maker(asked.group, by_cause(known), kind_of, blamed)
    if asked.group == "none":
        shown, page, pages = part_of(heads, asked.page, ROWS)
        return GroupedPage(tuple(map(maker.alone, shown)), page, pages, len(shown))
    groups: dict[str, list[Finding]] = {}
    for one in heads:
        groups.setdefault(_group_of(one, asked.group, kind_of), []).append(one)
    if len(groups) == 1:
        (key,) = groups
        shown, page, pages = part_of(heads, asked.page, ROWS)
        whole = maker.group(key, heads, shown)._replace(more=0)
        return GroupedPage((whole,), page, pages, len(shown))
    chosen, page, pages = part_of(list(groups.items()), asked.page, MOST_GROUPS)
    most = max(LEAST_ROWS, ROWS // max(len(chosen), 1))
    made = tuple(maker.group(key, members, members[:most]) for key, members in chosen)
    return GroupedPage(made, page, pages, sum(len(one.rows) for one in made))


class _Maker(NamedTuple):
    """Makes groups and rows of findings."""

    by: str
    follows: Mapping[str, Sequence[Finding]]
    kind_of: KindOf
    blamed: Mapping[str, Sequence[NotSettled]]

    def alone(self, one: Finding) -> FindingGroup:
        """Return a group of one finding, whose row says all."""
        row = self._row(one, headline(one, self.kind_of))
        return FindingGroup((self.by, ""), "", (row,), 0)

    def group(self, key: str, members: Sequence[Finding], shown: Sequence[Finding]) -> FindingGroup:
        """Return a group of which some members are shown."""
        if len(members) == 1:
            return self.alone(members[0])
        say = headline
        if self.by == "culprit":
            title, say = group_headline(members, self.kind_of), predicate
        elif self.by == "object":
            title = f"{key}: {len(members):,} findings"
        else:
            title = f"{count_objects(members, self.kind_of)} with {key}"
        rows = tuple(self._row(one, say(one, self.kind_of)) for one in shown)
        return FindingGroup((self.by, key), title, rows, len(members) - len(shown))

    def _row(self, one: Finding, words: str) -> FindingRow:
        below, things = self.follows.get(one.id, ()), self.blamed.get(one.id, ())
        return FindingRow(
            one,
            words,
            tuple(below[:_MOST_BENEATH]),
            max(0, len(below) - _MOST_BENEATH),
            tuple(things[:_MOST_BENEATH]),
            max(0, len(things) - _MOST_BENEATH),
        )


def _group_of(one: Finding, by: str, kind_of: KindOf) -> str:
    if by == "culprit":
        return culprit(one).name
    if by == "object":
        return about(one, kind_of)
    return one.detector
