"""GET /api/objects: what is tracked, worst first, a page at a time."""

import asyncio
import heapq
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec
from aiohttp import web

from webhook.status.remembered import Remembered
from webhook.status.tracking import Tracked, Tracking
from webhook.status.view import Health

_FILTERS: Final = frozenset({"group", "kind", "namespace", "name", "uid", "health"})
_PARAMETERS: Final = _FILTERS | {"limit", "continue"}
_LIMIT: Final = 500
_MOST: Final = 1_000
_BITE: Final = 500
"""Objects that are looked at before answers get their turn: about a millisecond."""
_WORST: Final = {Health.RED: 0, Health.YELLOW: 1, Health.GREEN: 2}

_Rank = tuple[int, bool, float, str]
"""Worst, then unsettled, then longest so; the uid makes it unique."""


class BadQueryError(ValueError):
    """A query of /api/objects that cannot be answered; the message says what is wrong."""


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


class Query(NamedTuple):
    """A request, checked."""

    filters: Mapping[str, str]
    limit: int
    after: _Rank | None

    def matches(self, found: Tracked) -> bool:
        """Whether the object has every value that is asked for."""
        state = found.state
        values = (found.kind.group, found.kind.kind, state.namespace, state.name, state.health)
        names = ("group", "kind", "namespace", "name", "health")
        return all(
            self.filters.get(name, value) == value
            for name, value in zip(names, values, strict=True)
        )


def parse_query(query: Mapping[str, str]) -> Query:
    """Check the parameters; raises BadQueryError."""
    if unknown := sorted(set(query) - _PARAMETERS):
        known = ", ".join(sorted(_PARAMETERS))
        raise BadQueryError(f"unknown parameter {unknown[0]!r}; known are {known}")
    health = query.get("health")
    if health is not None and health not in tuple(Health):
        raise BadQueryError(f"health must be one of {', '.join(Health)}")
    limit = query.get("limit", str(_LIMIT))
    if not limit.isascii() or not limit.isdecimal() or not 0 < int(limit[:9]) <= _MOST:
        raise BadQueryError(f"limit must be a number from 1 to {_MOST}")
    after = None
    if token := query.get("continue"):
        try:
            after = msgspec.json.decode(bytes.fromhex(token), type=_Rank)
        except (ValueError, msgspec.MsgspecError) as error:
            raise BadQueryError("continue must be what an answer before had there") from error
    return Query({key: query[key] for key in _FILTERS & set(query)}, int(limit), after)


async def page(tracking: Tracking, query: Query, at: float) -> dict[str, Any]:
    """The next objects; what changes its rank between two pages may be missed or come twice."""
    best: list[tuple[_Rank, Tracked]] = []
    uid = query.filters.get("uid")
    uids = iter(tracking.uids() if uid is None else [uid])
    while bite := list(islice(uids, _BITE)):
        found = _ranked(tracking, query, bite)
        if len(best) > query.limit:
            found = (one for one in found if one[0] < best[-1][0])
        best = heapq.nsmallest(query.limit + 1, [*best, *found])
        await asyncio.sleep(0)
    shown = best[: query.limit]
    more = len(best) > query.limit
    return {
        "objects": [_shown(found, at) for _, found in shown],
        "continue": msgspec.json.encode(shown[-1][0]).hex() if more else "",
    }


async def answer_objects(tracking: Tracking, query: Mapping[str, str], at: float) -> web.Response:
    """200 with a page, or 400 with what is wrong."""
    try:
        body = await page(tracking, parse_query(query), at)
    except BadQueryError as error:
        return web.Response(
            status=400,
            body=msgspec.json.encode({"error": str(error)}),
            content_type="application/json",
        )
    return web.Response(body=msgspec.json.encode(body), content_type="application/json")


def _ranked(tracking: Tracking, query: Query, uids: list[str]) -> Iterator[tuple[_Rank, Tracked]]:
    for uid in uids:
        found = tracking.find(uid)
        if found is None or not query.matches(found):
            continue
        state = found.state
        rank = (_WORST[state.health], state.settled, state.changed_at, uid)
        if query.after is None or rank > query.after:
            yield rank, found


def _shown(found: Tracked, at: float) -> TrackedObject:
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
        _time(state.changed_at),
        _time(state.intent_at) if state.intent_seen else None,
        _since_intent(state, state.observed_at),
        _since_intent(state, state.settled_at),
        len(state.flips_since(at)),
        not found.waiting,
    )


def _since_intent(state: Remembered, at: float | None) -> float | None:
    """Null also where one sight showed both: then nobody knows how long it took."""
    return at - state.intent_at if state.intent_seen and at and at > state.intent_at else None


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
