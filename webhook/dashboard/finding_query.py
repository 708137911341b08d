"""Which findings a request asks for, and in which order. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from genguard.detection.detectors import ALL
from genguard.detection.finding import Finding, Severity
from genguard.detection.ledger import MOST_FINDINGS
from webhook.dashboard.headlines import KindOf, about, culprit
from webhook.dashboard.page import (
    begin_of_range,
    check_parameters,
    choice,
    has_words,
    number,
    time_range,
)
from webhook.dashboard.rendering import parse_time

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
        found.sort(key=_column(self.sort, kind_of), reverse=self.order == "desc")
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


def _column(sort: str, kind_of: KindOf) -> Callable[[Finding], Any]:
    keys: dict[str, Callable[[Finding], Any]] = {
        "severity": lambda one: one.severity.rank,
        "what": lambda one: about(one, kind_of),
        "since": lambda one: one.first_seen,
        "last": lambda one: one.last_seen,
        "count": lambda one: one.count,
    }
    return keys[sort]
