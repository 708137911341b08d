"""Lists of findings: what URL parameters choose, the worst first, in groups of one culprit. Pure.

A finding that another causes is a consequence: it stands beneath its cause, in the group of
that cause. Objects that are not settled stand beneath the finding that is to blame.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from genguard.audit.event import ObjectReference
from genguard.blame.audited import kind_in_log
from genguard.detection.causes import beneath
from genguard.detection.finding import Finding, FoundObject, Severity
from genguard.detection.ledger import MOST_FINDINGS
from genguard.detection.questions import FINDINGS
from genguard.generation.table import load_rows
from webhook.dashboard.broken import NotSettled
from webhook.dashboard.headlines import (
    KindOf,
    above_of,
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
from webhook.dashboard.rendering import parse_time, shown_severity

STATES: Final = ("open", "quiet", "resolved", "all")
"""`open` includes quiet findings: they are not resolved, but show no new signal."""
DETECTORS: Final = tuple(sorted(FINDINGS))
SEVERITIES: Final = tuple(reversed(Severity))
_BOTH: Final = "open", "quiet"
_FILTERS: Final = ("q", "severity", "kind", "namespace", "detector", "culprit", "state", "since")


class FindingQuery(msgspec.Struct, frozen=True):
    """The filters of a request; an empty value is no filter. `q` searches all shown text.

    kind     of the objects, as kubectl takes it
    culprit  as webhook/dashboard/headlines.py names it
    since    findings with a signal within this time, such as 24h
    """

    q: str
    severity: str
    kind: str
    namespace: str
    detector: str
    culprit: str
    state: str
    since: str
    page: int
    limit: int

    @property
    def filters(self) -> dict[str, str]:
        """The parameters that choose findings."""
        return {name: getattr(self, name) for name in _FILTERS}

    @property
    def is_narrow(self) -> bool:
        """Whether a filter other than the state leaves findings out."""
        return any(value for name, value in self.filters.items() if name != "state")

    @property
    def is_usual(self) -> bool:
        """Whether the worst of all open findings come first."""
        return self.page == 1 and self.state == "open" and not self.is_narrow

    def find(self, findings: Iterable[Finding], now: float) -> list[Finding]:
        """Return the findings that match, sorted: unresolved first, the worst and latest first.

        The latest began last: in the order of signals, rows would move with each of them.
        """
        found = sorted(
            self._matching(findings, now),
            key=lambda finding: (finding.severity.rank, finding.first_seen, finding.last_seen),
            reverse=True,
        )
        found.sort(key=lambda finding: finding.state == "resolved")
        return found

    def _matching(self, findings: Iterable[Finding], now: float) -> Iterator[Finding]:
        words = self.q.casefold().split()
        begin = begin_of_range(self.since, now)
        is_of_kind = kind_in_log(self.kind, load_rows()) if self.kind else None
        for finding in findings:
            if (
                (self.state in ("all", finding.state) or (self.state, finding.state) == _BOTH)
                and self.severity in ("", finding.severity)
                and self.detector in ("", finding.detector)
                and (is_of_kind is None or is_of_kind(_reference(finding.object)))
                and (not self.namespace or self.namespace in _namespaces(finding))
                and (not self.since or parse_time(finding.last_seen) >= begin)
                and (not self.culprit or culprit(finding).name == self.culprit)
                and (not words or has_words(words, _shown_text(finding)))
            ):
                yield finding


def parse(query: Mapping[str, str], *, state: str, limit: int) -> FindingQuery:
    """Check the URL parameters; `state` and `limit` are the defaults.

    Raises BadQueryError.
    """
    check_parameters(query, FindingQuery.__struct_fields__)
    return FindingQuery(
        q=query.get("q", "").strip(),
        severity=choice(query, "severity", SEVERITIES),
        kind=query.get("kind", "").strip(),
        namespace=query.get("namespace", "").strip(),
        detector=choice(query, "detector", DETECTORS),
        culprit=query.get("culprit", "").strip(),
        state=choice(query, "state", STATES, state),
        since=time_range(query),
        page=number(query, "page", 1, MOST_FINDINGS),
        limit=number(query, "limit", limit, MOST_FINDINGS),
    )


def count_open(findings: Iterable[Finding]) -> dict[str, int]:
    """Return how many findings of each severity are not resolved, the worst first.

    What is shown beneath another is counted with it, and what genguard repairs is not counted.
    """
    findings = [finding for finding in findings if finding.state != "resolved"]
    above = above_of(findings)
    is_open = Counter(
        finding.severity for finding in findings if not (finding.id in above or finding.restored)
    )
    return {severity.value: is_open[severity] for severity in SEVERITIES}


def _reference(item: FoundObject) -> ObjectReference:
    return ObjectReference(api_group=item.group, api_version=item.version, resource=item.resource)


def _namespaces(finding: Finding) -> set[str]:
    return {
        where.namespace
        for where in (finding.objects.examples if finding.objects else (finding.object,))
    }


def _shown_text(finding: Finding) -> Iterator[str]:
    where = finding.subject
    yield from (where.namespace, where.name, where.resource, where.group, where.uid)
    yield from (f"{where.namespace}/{where.name}", finding.state)
    yield from (finding.id, finding.detector, finding.severity, finding.message, finding.above)
    yield from finding.paths
    yield from (f"{actor.name} {actor.field_manager}" for actor in finding.actors)


ROWS: Final = 100
"""Rows of a page."""
MOST_GROUPS: Final = 20
LEAST_ROWS: Final = 5
"""Rows that each group shows at least; the rest of a large one is a link away."""


class FindingRow(NamedTuple):
    """One finding and what comes of it.

    consequences  findings that it causes, and what else its culprit does to the object
    not_settled   objects that are not settled, for which it is to blame
    """

    finding: Finding
    headline: str
    consequences: Sequence[Finding]
    not_settled: Sequence[NotSettled]


class FindingGroup(NamedTuple):
    """Findings of one culprit, worst first; `more` of them are not shown.

    headline  "" for a finding that stands alone
    """

    culprit: str
    headline: str
    rows: tuple[FindingRow, ...]
    more: int

    @property
    def severity(self) -> Severity:
        """The worst severity in it."""
        return max((row.finding.severity for row in self.rows), key=lambda severity: severity.rank)

    def shown_severity(self, now: float) -> str:
        """Return the worst severity, or how all of that severity stand: see shown_severity."""
        worst = self.severity
        found = (row.finding for row in self.rows if row.finding.severity is worst)
        shown = {shown_severity(finding, now) for finding in found}
        return shown.pop() if len(shown) == 1 else worst


class GroupedPage(NamedTuple):
    """One page of groups: it has `shown` findings as rows, and all pages have `total`."""

    groups: tuple[FindingGroup, ...]
    page: int
    pages: int
    shown: int
    total: int


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
    ids, above = {finding.id for finding in found}, above_of(known)
    # Where the cause is filtered out, what it causes stands alone.
    heads = [finding for finding in found if above.get(finding.id) not in ids]
    blamed: dict[str, list[NotSettled]] = {}
    for thing in not_settled:
        blamed.setdefault(above.get(thing.finding, thing.finding), []).append(thing)

    def rank(finding: Finding) -> tuple[bool, bool, int, bool]:
        """Of two equal ones, the finding that keeps objects from being settled comes first."""
        is_over = finding.state == "resolved"
        return is_over, finding.restored, -finding.severity.rank, finding.id not in blamed

    heads.sort(key=rank)
    groups: dict[str, list[Finding]] = {}
    for head in heads:
        groups.setdefault(culprit(head).name, []).append(head)
    caused, total = beneath(known, above), len(heads)

    def group(name: str, shown: Sequence[Finding]) -> FindingGroup:
        members = groups[name]
        is_alone = len(members) == 1
        title = "" if is_alone else group_headline(members, kind_of)
        say = headline if is_alone else predicate
        rows = tuple(
            FindingRow(
                finding,
                say(finding, kind_of),
                caused.get(finding.id, ()),
                blamed.get(finding.id, ()),
            )
            for finding in shown
        )
        return FindingGroup(name, title, rows, len(members) - len(shown))

    if len(groups) == 1:
        (name,) = groups
        shown, page, pages = part_of(heads, asked.page, ROWS)
        return GroupedPage((group(name, shown)._replace(more=0),), page, pages, len(shown), total)
    chosen, page, pages = part_of(list(groups), asked.page, MOST_GROUPS)
    most = max(LEAST_ROWS, ROWS // max(len(chosen), 1))
    made = tuple(group(name, groups[name][:most]) for name in chosen)
    return GroupedPage(made, page, pages, sum(len(part.rows) for part in made), total)
