"""Findings in groups: of one culprit, one object or one detector, with what follows beneath. Pure.

A finding that follows from another is a consequence: it stands beneath its cause, in the group of
that cause. Objects that are not settled stand beneath the finding that is to blame.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from genguard.detection.causes import by_cause
from genguard.detection.finding import Finding, Severity
from webhook.dashboard.broken import NotSettled
from webhook.dashboard.finding_query import FindingQuery
from webhook.dashboard.headlines import (
    KindOf,
    about,
    count_objects,
    culprit,
    group_headline,
    headline,
    predicate,
)
from webhook.dashboard.page import part_of
from webhook.dashboard.rendering import ENDING, shown_severity

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
    if asked.sort == "severity" and asked.order == "desc":
        # Of equal severity, what keeps objects from being settled comes first.
        blamed = {thing.finding for thing in not_settled}
        heads.sort(
            key=lambda one: (one.state == "resolved", -one.severity.rank, one.id not in blamed)
        )
    maker = _GroupMaker(asked.group, by_cause(known), not_settled, kind_of)
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


class _GroupMaker:
    """Makes groups and rows of findings."""

    def __init__(
        self,
        by: str,
        follows: Mapping[str, Sequence[Finding]],
        not_settled: Iterable[NotSettled],
        kind_of: KindOf,
    ) -> None:
        self._by: Final = by
        self._follows: Final = follows
        self._kind_of: Final = kind_of
        self._blamed: Final[dict[str, list[NotSettled]]] = {}
        for thing in not_settled:
            self._blamed.setdefault(thing.finding, []).append(thing)

    def alone(self, one: Finding) -> FindingGroup:
        """Return a group of one finding, whose row says all."""
        row = self._row(one, headline(one, self._kind_of))
        return FindingGroup((self._by, ""), "", (row,), 0)

    def group(self, key: str, members: Sequence[Finding], shown: Sequence[Finding]) -> FindingGroup:
        """Return a group of which some members are shown."""
        if len(members) == 1:
            return self.alone(members[0])
        say = headline
        if self._by == "culprit":
            title, say = group_headline(members, self._kind_of), predicate
        elif self._by == "object":
            title = f"{key}: {len(members):,} findings"
        else:
            title = f"{count_objects(members, self._kind_of)} with {key}"
        rows = tuple(self._row(one, say(one, self._kind_of)) for one in shown)
        return FindingGroup((self._by, key), title, rows, len(members) - len(shown))

    def _row(self, one: Finding, words: str) -> FindingRow:
        below, things = self._follows.get(one.id, ()), self._blamed.get(one.id, ())
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
