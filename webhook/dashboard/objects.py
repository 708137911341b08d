"""The page of tracked objects: filtered, the worst first, in pages."""

import asyncio
import heapq
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from genguard.detection.finding import Finding, FoundObject, Severity
from genguard.status.counts import CountsByKind
from genguard.status.evaluate import GRACE_SECONDS
from genguard.status.tracked_state import TrackedState, TrackedSummary
from genguard.status.tracking import Tracked, Tracking
from genguard.status.view import Health
from webhook.dashboard.page import (
    BadQueryError,
    PageContext,
    PageData,
    begin_of_range,
    check_parameters,
    choice,
    number,
    time_range,
)
from webhook.dashboard.rendering import ENDING, shown_severity, stamp_exactly

_FILTERS: Final = ("group", "kind", "namespace", "name", "uid", "health", "q")
_PARAMETERS: Final = (*_FILTERS, "since", "order", "limit", "continue")
ORDERS: Final = ("worst", "latest")
"""The worst and oldest first, or the latest change of ready, settled or health first."""
MOST_LEVELS: Final = 8
"""Of owners above an object, and of what it owns below it."""
_ROWS: Final = 100
_LIMIT: Final = 500
_MOST: Final = 1_000
_BATCH_SIZE: Final = 500
"""Objects between two pauses for the event loop: about half a millisecond."""
_WORST_FIRST: Final = {health: place for place, health in enumerate(reversed(Health))}

_Rank = tuple[int, bool, float, str]
"""Sorts by health, settled and age; the uid makes it unique."""


class TrackedObject(msgspec.Struct, frozen=True, rename="camel"):
    """One tracked object; times are RFC 3339, null if unknown."""

    group: str
    resource: str
    kind: str
    namespace: str
    name: str
    uid: str
    generation: int | None
    observed_generation: int | None
    reconciled_generation: int | None
    ready: bool | None
    settled: bool
    health: Health
    since: str
    """The time of the last change of ready, settled or health."""
    intent_since: str | None
    observation_lag_seconds: float | None
    reconcile_duration_seconds: float | None
    ready_flips: int
    open_findings: int = 0
    """Unresolved findings about the object. They do not change its health."""
    worst_finding: str = ""
    """Their worst severity; "ending" where all of that severity only wait to be resolved."""


class ObjectsPage(msgspec.Struct, frozen=True, rename={"next": "continue"}):
    """One page of objects: `total` match, `before` of them are on earlier pages."""

    objects: tuple[TrackedObject, ...]
    next: str
    total: int
    before: int


def owners(tracking: Tracking, found: Tracked) -> Iterator[Tracked]:
    """Yield the owner of an object, the owner of that, and so on; they may form a cycle."""
    for _ in range(MOST_LEVELS):
        owner = tracking.find(found.state.owner) if found.state.owner else None
        if owner is None:
            return
        yield owner
        found = owner


def stuck_since(
    tracking: Tracking, found: Tracked, about: frozenset[str], now: float
) -> float | None:
    """Return since when an object is stuck, None while it is in progress.

    about  uids of the objects whose damage findings say is there
    """
    state = found.state
    stuck_at = tracking.stuck_at(found)
    if state.is_unobserved and found.uid in about:
        stuck_at = state.blocked_since + GRACE_SECONDS
    if state.settled or stuck_at is None or now < stuck_at:
        return None
    return min(stuck_at, state.blocked_since)


def find_stuck(
    tracking: Tracking, uids: Iterable[str], about: frozenset[str], now: float
) -> set[str]:
    """Return which of a few objects are stuck: pages say that these are broken."""
    known = (found for uid in uids if (found := tracking.find(uid)) is not None)
    return {one.uid for one in known if stuck_since(tracking, one, about, now) is not None}


def damaged_objects(findings: Iterable[Finding]) -> frozenset[str]:
    """Return the uids of the objects whose damage findings say is there."""
    return frozenset(
        one.object.uid
        for one in findings
        if one.state != "resolved" and one.object.uid and not one.repaired
    )


class OpenFindings:
    """The unresolved findings about each object, by uid, and by name where they have none."""

    def __init__(self, findings: Iterable[Finding], now: float) -> None:
        """Up to 20 ms for the maximum: make it in a thread."""
        self._about: Final[dict[str, list[str]]] = {}
        findings = tuple(findings)
        self.damaged: Final = damaged_objects(findings)
        for one in findings:
            if one.state != "resolved":
                shown = shown_severity(one, now)
                self._about.setdefault(one.object.identity, []).append(shown)

    def of(self, found: Tracked) -> tuple[int, str]:
        """Return how many are about an object, and the worst of them; 0 and "" for none."""
        kind, state = found.kind, found.state
        named = FoundObject(kind.group, "", kind.resource, state.namespace, state.name, "")
        words = [*self._about.get(found.uid, ()), *self._about.get(named.identity, ())]
        return len(words), max(words, key=_WORST.index, default="")


_WORST: Final = (Severity.INFO, ENDING, Severity.WARNING, Severity.CRITICAL)


class ObjectQuery(NamedTuple):
    """The filters of a request. An empty filter is none, except group: "" is the core group.

    since  how long ago ready, settled or health changed at most: such as 24h, "" for any time
    """

    filters: Mapping[str, str]
    limit: int
    after: _Rank | None
    since: str = ""
    order: str = ORDERS[0]

    @property
    def shown(self) -> dict[str, str]:
        """The parameters of links to other pages of the same objects."""
        order = self.order if self.order != ORDERS[0] else ""
        return {**self.filters, "since": self.since, "order": order}


def parse(query: Mapping[str, str], limit: int = _LIMIT) -> ObjectQuery:
    """Check the URL parameters; raises BadQueryError."""
    check_parameters({key: value for key, value in query.items() if key != "continue"}, _PARAMETERS)
    choice(query, "health", Health)
    after = None
    if token := query.get("continue"):
        try:
            after = msgspec.json.decode(bytes.fromhex(token), type=_Rank)
        except (ValueError, msgspec.MsgspecError) as error:
            raise BadQueryError("continue must be the value from an earlier answer") from error
    filters = {key: query[key].strip() for key in _FILTERS if query.get(key) is not None}
    given = {key: value for key, value in filters.items() if value or key == "group"}
    return ObjectQuery(
        given,
        number(query, "limit", limit, _MOST),
        after,
        time_range(query),
        choice(query, "order", ORDERS, ORDERS[0]),
    )


async def page(
    tracking: Tracking, asked: ObjectQuery, at: float, findings: OpenFindings | None = None
) -> ObjectsPage:
    """Return one page. An object that changes between two requests may be missed or repeated."""
    ranking = _Ranking(tracking, asked, begin_of_range(asked.since, at))
    summarized = tracking.summarized()
    while batch := list(islice(summarized, _BATCH_SIZE)):
        ranking.add(batch)
        await asyncio.sleep(0)
    shown = ranking.best[: asked.limit]
    known = [one for rank in shown if (one := tracking.find(rank[-1])) is not None]
    return ObjectsPage(
        tuple(show(one, at, findings) for one in known),
        msgspec.json.encode(shown[-1]).hex() if len(ranking.best) > asked.limit else "",
        ranking.total,
        ranking.before,
    )


async def load(context: PageContext, query: Mapping[str, str], now: float) -> PageData:
    """Return the HTML page: 100 objects."""
    asked = parse(query, _ROWS)
    tracking = context.sources.detecting.tracking
    known = await _open(context, now)
    model = await page(tracking, asked, now, known)
    kinds = sorted({kind.kind for kind, _ in tracking.counts_by_kind if kind.resource != "other"})
    values = {
        "stuck": find_stuck(tracking, (one.uid for one in model.objects), known.damaged, now),
        "asked": asked.filters,
        "since": asked.since,
        "order": asked.order,
        "shown": asked.shown,
        "healths": tuple(_WORST_FIRST),
        "kinds": kinds,
        "orders": ORDERS,
        "most": _MOST,
        "watched": tuple(context.sources.watching.states()),
    }
    return PageData(model, values | {"known": len(tracking), "limit": asked.limit})


async def load_all(context: PageContext, query: Mapping[str, str], now: float) -> PageData:
    """Return the JSON."""
    tracking, findings = context.sources.detecting.tracking, await _open(context, now)
    return PageData(await page(tracking, parse(query), now, findings), {})


async def _open(context: PageContext, now: float) -> OpenFindings:
    found = context.sources.detecting.findings()
    return await context.queue.in_thread(lambda: OpenFindings(found, now))


class _Ranking:
    """Filters and ranks all tracked objects, of which it decodes little: there may be 150,000."""

    def __init__(self, tracking: Tracking, asked: ObjectQuery, begin: float) -> None:
        """`begin`: objects that did not change since are left out."""
        filters = asked.filters
        self._begin: Final = begin
        self._is_latest_first: Final = asked.order == "latest"
        self._limit: Final = asked.limit
        self._after: Final = asked.after
        self._health: Final = filters.get("health")
        self._uid: Final = filters.get("uid")
        self._namespace: Final = filters.get("namespace")
        self._name: Final = filters.get("name")
        self._words: Final = _words(tracking.counts_by_kind, filters.get("q", ""))
        self._kinds: Final = _kinds(tracking.counts_by_kind, filters)
        named = self._namespace, self._name
        self._by_name: Final = bool(self._words) or named != (None, None)
        self.best: list[_Rank] = []
        self.total = self.before = 0

    def add(self, batch: Iterable[tuple[str, TrackedSummary]]) -> None:
        """Count the matching objects of a batch and keep the best."""
        found: list[_Rank] = []
        worst = self.best[-1] if len(self.best) > self._limit else None
        for uid, one in batch:
            if (
                one.changed_at < self._begin
                or (self._health is not None and one.health != self._health)
                or (self._kinds is not None and one.kind not in self._kinds)
                or (self._uid is not None and uid != self._uid)
                or (self._by_name and not self._is_named(uid, one))
            ):
                continue
            self.total += 1
            if self._is_latest_first:
                rank: _Rank = (0, False, -one.changed_at, uid)
            else:
                rank = (_WORST_FIRST[one.health], one.settled, one.changed_at, uid)
            if self._after is not None and rank <= self._after:
                self.before += 1
            elif worst is None or rank < worst:
                found.append(rank)
        if found:
            self.best = heapq.nsmallest(self._limit + 1, [*self.best, *found])

    def _is_named(self, uid: str, one: TrackedSummary) -> bool:
        names = f"{one.namespace}/{one.name}".lower()
        return (
            self._namespace in (None, one.namespace)
            and self._name in (None, one.name)
            and all(
                word.text in names or one.kind in word.kinds or word.text in uid
                for word in self._words
            )
        )


class _Word(NamedTuple):
    """A search word for namespace/name, uid, and the positions of kinds that have it."""

    text: str
    kinds: frozenset[int]


def _words(counts_by_kind: CountsByKind, text: str) -> tuple[_Word, ...]:
    kinds = [f"{kind.kind} {kind.resource}".casefold() for kind, _ in counts_by_kind]
    return tuple(
        _Word(word, frozenset(at for at, kind in enumerate(kinds) if word in kind))
        for word in text.casefold().split()
    )


def _kinds(counts_by_kind: CountsByKind, filters: Mapping[str, str]) -> frozenset[int] | None:
    """Return the positions of the requested kinds; None for all."""
    group, kind = filters.get("group"), filters.get("kind")
    if group is None and kind is None:
        return None
    return frozenset(
        position
        for position, (known, _) in enumerate(counts_by_kind)
        if group in (None, known.group) and kind in (None, known.kind)
    )


def show(found: Tracked, at: float, findings: OpenFindings | None = None) -> TrackedObject:
    """Return one object as the API shows it at a time."""
    state = found.state
    count, worst = findings.of(found) if findings is not None else (0, "")
    return TrackedObject(
        found.kind.group,
        found.kind.resource,
        found.kind.kind,
        state.namespace,
        state.name,
        found.uid,
        state.generation or None,
        state.observed,
        state.reconciled,
        state.ready,
        state.settled,
        state.health,
        stamp_exactly(state.changed_at),
        stamp_exactly(state.intent_at) if state.intent_seen else None,
        _since_intent(state, state.observed_at),
        _since_intent(state, state.settled_at),
        len(state.flips_since(at)),
        count,
        worst,
    )


def _since_intent(state: TrackedState, at: float | None) -> float | None:
    """Return the seconds since the change of intent; None if both were first seen together."""
    return at - state.intent_at if state.intent_seen and at and at > state.intent_at else None
