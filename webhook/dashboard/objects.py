"""Tracked objects as a page: worst first, filtered, a page at a time."""

import asyncio
import heapq
from collections.abc import AsyncIterator, Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from webhook.dashboard.query import BadQueryError, known_only, number, one_of
from webhook.dashboard.scene import Scene, Seen
from webhook.dashboard.words import stamp_exactly
from webhook.status.remembered import Remembered, glance
from webhook.status.tally import Tally
from webhook.status.tracking import Tracked, Tracking
from webhook.status.view import Health

_FILTERS: Final = ("group", "kind", "namespace", "name", "uid", "health", "q")
_PARAMETERS: Final = (*_FILTERS, "limit", "continue")
_ROWS: Final = 100
_LIMIT: Final = 500
_MOST: Final = 1_000
_BITE: Final = 500
"""Objects that are looked at before answers get their turn: about half a millisecond."""
_WORST: Final = {Health.RED: 0, Health.YELLOW: 1, Health.GREEN: 2}

_Rank = tuple[int, bool, float, str]
"""Worst, then unsettled, then longest so; the uid makes it unique."""


class TrackedObject(msgspec.Struct, frozen=True, rename="camel"):
    """One object as the API shows it; times are RFC 3339, null where nobody knows."""

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
    """When ready, settled or health last became what they are."""
    intent_since: str | None
    observation_lag_seconds: float | None
    reconcile_duration_seconds: float | None
    ready_flips: int
    stored: bool
    """False: an allowed write, of which nobody knows yet whether it was stored."""


class ObjectsPage(msgspec.Struct, frozen=True, rename={"next": "continue"}):
    """`total` match; `before` of them are on earlier pages."""

    objects: tuple[TrackedObject, ...]
    next: str
    total: int
    before: int


class Asked(NamedTuple):
    """A request, checked; an empty filter is none, but for the group, where "" is the core's."""

    filters: Mapping[str, str]
    limit: int
    after: _Rank | None


def parse(query: Mapping[str, str], limit: int = _LIMIT) -> Asked:
    """Check the parameters; raises BadQueryError."""
    known_only({key: value for key, value in query.items() if key != "continue"}, _PARAMETERS)
    one_of(query, "health", Health)
    after = None
    if token := query.get("continue"):
        try:
            after = msgspec.json.decode(bytes.fromhex(token), type=_Rank)
        except (ValueError, msgspec.MsgspecError) as error:
            raise BadQueryError("continue must be what an answer before had there") from error
    filters = {key: query[key].strip() for key in _FILTERS if query.get(key) is not None}
    given = {key: value for key, value in filters.items() if value or key == "group"}
    return Asked(given, number(query, "limit", limit, _MOST), after)


async def page(tracking: Tracking, asked: Asked, at: float) -> ObjectsPage:
    """The next objects; what changes its rank between two pages may be missed or come twice."""
    best: list[_Rank] = []
    total = before = 0
    ranks = _Ranking(tracking, asked.filters).ranks()
    async for found in _bites(ranks):
        ahead = found if asked.after is None else [one for one in found if one > asked.after]
        total += len(found)
        before += len(found) - len(ahead)
        better = ahead if len(best) <= asked.limit else [one for one in ahead if one < best[-1]]
        if better:
            best = heapq.nsmallest(asked.limit + 1, [*best, *better])
    shown = best[: asked.limit]
    known = [one for rank in shown if (one := tracking.find(rank[-1])) is not None]
    return ObjectsPage(
        tuple(show(one, at) for one in known),
        msgspec.json.encode(shown[-1]).hex() if len(best) > asked.limit else "",
        total,
        before,
    )


async def worst(scene: Scene, query: Mapping[str, str], now: float) -> Seen:
    """For people: a hundred at a time."""
    asked = parse(query, _ROWS)
    tracking = scene.sources.detecting.tracking
    model = await page(tracking, asked, now)
    kinds = sorted({kind.kind for kind, _ in tracking.tally if kind.resource != "other"})
    values = {"asked": asked.filters, "healths": tuple(_WORST), "kinds": kinds}
    return Seen(model, values | {"known": len(tracking), "limit": asked.limit})


async def every_one(scene: Scene, query: Mapping[str, str], now: float) -> Seen:
    """For programs."""
    return Seen(await page(scene.sources.detecting.tracking, parse(query), now), {})


class _Ranking:
    """Looks at each object that is tracked, as little as can be: there may be 200,000."""

    def __init__(self, tracking: Tracking, filters: Mapping[str, str]) -> None:
        self._tracking: Final = tracking
        self._health: Final = filters.get("health")
        self._uid: Final = filters.get("uid")
        self._namespace: Final = _bytes(filters.get("namespace"))
        self._name: Final = _bytes(filters.get("name"))
        self._words: Final = filters.get("q", "").casefold().split()
        self._kinds: Final = _kinds(tracking.tally, filters)

    def ranks(self) -> Iterator[_Rank | None]:
        """Of those that match; None for each of the others, so that they count as work."""
        for uid, data in self._tracking.packed():
            if self._uid in (None, uid):
                yield self._rank(uid, data if isinstance(data, bytes) else data[0])
            else:
                yield None

    def _rank(self, uid: str, data: bytes) -> _Rank | None:
        kind, changed_at, settled, health, namespace, name, _ = glance(data)
        if (
            (self._health is not None and health != self._health)
            or (self._namespace is not None and namespace != self._namespace)
            or (self._name is not None and name != self._name)
            or (self._kinds is not None and kind not in self._kinds)
            or (self._words and not self._has(uid, kind, namespace, name))
        ):
            return None
        return _WORST[health], settled, changed_at, uid

    def _has(self, uid: str, kind: int, namespace: bytes, name: bytes) -> bool:
        names = self._tracking.tally.kind(kind)
        text = (
            f"{namespace.decode()}/{name.decode()} {names.kind} {names.resource} {uid}".casefold()
        )
        return all(word in text for word in self._words)


async def _bites(ranks: Iterator[_Rank | None]) -> AsyncIterator[list[_Rank]]:
    while bite := list(islice(ranks, _BITE)):
        yield [one for one in bite if one is not None]
        await asyncio.sleep(0)


def _kinds(tally: Tally, filters: Mapping[str, str]) -> frozenset[int] | None:
    """Positions of the kinds that are asked for; None for all."""
    group, kind = filters.get("group"), filters.get("kind")
    if group is None and kind is None:
        return None
    return frozenset(
        position
        for position, (known, _) in enumerate(tally)
        if group in (None, known.group) and kind in (None, known.kind)
    )


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def show(found: Tracked, at: float) -> TrackedObject:
    """One object as the API shows it, at a time."""
    state = found.state
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
        not found.waiting,
    )


def _since_intent(state: Remembered, at: float | None) -> float | None:
    """Null also where one sight showed both: then nobody knows how long it took."""
    return at - state.intent_at if state.intent_seen and at and at > state.intent_at else None
