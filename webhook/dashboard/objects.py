"""The page of tracked objects: filtered, the worst first, in pages."""

import asyncio
import heapq
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from genguard.blame.stuck import damaged_objects, stuck_since
from genguard.detection.finding import Finding, FoundObject, Severity
from genguard.objects.metadata import rfc3339
from genguard.status.tracked_state import TrackedState
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
from webhook.dashboard.rendering import ENDING, REPAIRED, shown_severity

_FILTERS: Final = ("group", "kind", "namespace", "name", "uid", "health", "q")
_PARAMETERS: Final = (*_FILTERS, "since", "limit", "continue")
_ROWS: Final = 100
_LIMIT: Final = 500
_MOST: Final = 1_000
_BATCH_SIZE: Final = 500
"""Objects between two pauses for the event loop: about a millisecond."""
_WORST_FIRST: Final = {health: index for index, health in enumerate(reversed(Health))}

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
    blocked_by: str
    """The field that keeps it from being fine, what it has and what is wanted; or ""."""
    open_findings: int = 0
    """Unresolved findings about the object. They do not change its health."""
    worst_finding: str = ""
    """Their worst severity; "repaired" where genguard repairs all of them at each write, "ending"
    where all of that severity only wait to be resolved."""


class ObjectsPage(msgspec.Struct, frozen=True, rename={"next": "continue"}):
    """One page of objects: `total` match, `before` of them are on earlier pages."""

    objects: tuple[TrackedObject, ...]
    next: str
    total: int
    before: int


def find_stuck(
    tracking: Tracking, uids: Iterable[str], about: frozenset[str], now: float
) -> set[str]:
    """Return which of a few objects are stuck: pages say that these are broken."""
    known = (found for uid in uids if (found := tracking.find(uid)) is not None)
    return {found.uid for found in known if stuck_since(tracking, found, about, now) is not None}


class OpenFindings:
    """The unresolved findings about each object, by uid, and by name where they have none."""

    def __init__(self, findings: Iterable[Finding], now: float) -> None:
        """Up to 20 ms for the maximum: make it in a thread."""
        self._about: Final[dict[str, list[str]]] = {}
        findings = tuple(findings)
        self.damaged: Final = damaged_objects(findings)
        for finding in findings:
            if finding.state != "resolved":
                shown = shown_severity(finding, now)
                self._about.setdefault(finding.object.identity, []).append(shown)

    def of(self, found: Tracked) -> tuple[int, str]:
        """Return how many are about an object, and the worst of them; 0 and "" for none."""
        kind, state = found.kind, found.state
        named = FoundObject(kind.group, "", kind.resource, state.namespace, state.name, "")
        words = [*self._about.get(found.uid, ()), *self._about.get(named.identity, ())]
        return len(words), max(words, key=_WORST.index, default="")


_WORST: Final = (Severity.INFO, REPAIRED, ENDING, Severity.WARNING, Severity.CRITICAL)


class ObjectQuery(NamedTuple):
    """The filters of a request. An empty filter is none, except group: "" is the core group.

    since  the longest time since ready, settled or health changed, such as 24h; "" for any time
    """

    filters: Mapping[str, str]
    limit: int
    after: _Rank | None
    since: str = ""


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
    return ObjectQuery(given, number(query, "limit", limit, _MOST), after, time_range(query))


async def page(
    tracking: Tracking, asked: ObjectQuery, at: float, findings: OpenFindings | None = None
) -> ObjectsPage:
    """Return one page. An object that changes between two requests may be missed or repeated."""
    matches = _matcher(tracking, asked, begin_of_range(asked.since, at))
    best: list[_Rank] = []
    total = before = 0
    states = tracking.states()
    while batch := list(islice(states, _BATCH_SIZE)):
        for uid, state in batch:
            if not matches(uid, state):
                continue
            total += 1
            rank: _Rank = (_WORST_FIRST[state.health], state.settled, state.changed_at, uid)
            if asked.after is not None and rank <= asked.after:
                before += 1
            else:
                best.append(rank)
        best = heapq.nsmallest(asked.limit + 1, best)
        await asyncio.sleep(0)
    shown = best[: asked.limit]
    known = [found for rank in shown if (found := tracking.find(rank[-1])) is not None]
    return ObjectsPage(
        tuple(show(found, at, findings) for found in known),
        msgspec.json.encode(shown[-1]).hex() if len(best) > asked.limit else "",
        total,
        before,
    )


def _matcher(
    tracking: Tracking, asked: ObjectQuery, begin: float
) -> Callable[[str, TrackedState], bool]:
    """Return whether an object is asked for; `begin`: what did not change since is left out."""
    filters = asked.filters
    group, kind, uid = (filters.get(name) for name in ("group", "kind", "uid"))
    names = {
        position: f"{tracked.kind} {tracked.resource}".casefold()
        for position, (tracked, _) in enumerate(tracking.counts_by_kind)
        if group in (None, tracked.group) and kind in (None, tracked.kind)
    }
    wanted = [(name, filters[name]) for name in ("namespace", "name", "health") if name in filters]
    words = filters.get("q", "").casefold().split()

    def matches(of: str, state: TrackedState) -> bool:
        if state.changed_at < begin or state.kind not in names or uid not in (None, of):
            return False
        if any(getattr(state, name) != value for name, value in wanted):
            return False
        text = f"{state.namespace}/{state.name} {of}".casefold() if words else ""
        return all(word in text or word in names[state.kind] for word in words)

    return matches


async def load(context: PageContext, query: Mapping[str, str], now: float) -> PageData:
    """Return the HTML page: 100 objects."""
    asked = parse(query, _ROWS)
    tracking = context.sources.detecting.tracking
    known = await _open(context, now)
    model = await page(tracking, asked, now, known)
    kinds = sorted({kind.kind for kind, _ in tracking.counts_by_kind})
    values = {
        "stuck": find_stuck(tracking, (row.uid for row in model.objects), known.damaged, now),
        "asked": asked.filters,
        "since": asked.since,
        "shown": {**asked.filters, "since": asked.since},
        "healths": tuple(_WORST_FIRST),
        "kinds": kinds,
        "most": _MOST,
    }
    return PageData(model, values | {"known": len(tracking), "limit": asked.limit})


async def load_all(context: PageContext, query: Mapping[str, str], now: float) -> PageData:
    """Return the JSON."""
    tracking, findings = context.sources.detecting.tracking, await _open(context, now)
    return PageData(await page(tracking, parse(query), now, findings), {})


async def _open(context: PageContext, now: float) -> OpenFindings:
    found = context.sources.detecting.findings()
    return await context.queue.in_thread(lambda: OpenFindings(found, now))


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
        rfc3339(state.changed_at),
        rfc3339(state.intent_at) if state.intent_seen else None,
        _since_intent(state, state.observed_at),
        _since_intent(state, state.settled_at),
        len(state.flips_since(at)),
        state.blocked_by,
        count,
        worst,
    )


def _since_intent(state: TrackedState, at: float | None) -> float | None:
    """Return the seconds since the change of intent; None if both were first seen together."""
    return at - state.intent_at if state.intent_seen and at and at > state.intent_at else None
