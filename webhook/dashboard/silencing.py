"""Acknowledge, silence or end: the one thing that the dashboard lets people change.

POST /api/findings/ID/silence, for those who may change something (webhook/server/access.py). A page
of another site must not do it with the browser of somebody who may. So the body must be JSON: no
form can send it, and a browser asks the server before it sends it to another origin. And the
request must say that it comes from a page of this server, or from no page.
"""

import asyncio
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Final, Literal, NoReturn
from urllib.parse import urlsplit

import msgspec
from aiohttp import web
from msgspec import structs

from genguard.detection.silences import (
    MOST_BY,
    MOST_REASON,
    MOST_SECONDS,
    MOST_SILENCES,
    Action,
    Silence,
    TooManySilencesError,
)
from webhook.dashboard.page import PageContext, PageData, check_parameters, json_answer
from webhook.dashboard.rendering import stamp_exactly
from webhook.telemetry.logs import LOGGER

_MOST_BYTES: Final = 4_096
_BODY_SECONDS: Final = 5.0
_ACTIONS: Final = {"acknowledge": Action.ACKNOWLEDGED, "silence": Action.SILENCED}
DURATIONS: Final = (
    (3_600, "1 hour"),
    (4 * 3_600, "4 hours"),
    (12 * 3_600, "12 hours"),
    (86_400, "1 day"),
    (3 * 86_400, "3 days"),
    (7 * 86_400, "7 days"),
    (30 * 86_400, "30 days"),
)
"""The choices of the form, in seconds."""


class SilencesPage(msgspec.Struct, frozen=True):
    """What holds now, the first to end first."""

    silences: tuple[Mapping[str, object], ...]


class _Asked(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a request; reason and seconds are required, unless it ends an entry."""

    action: Literal["acknowledge", "silence", "end"]
    reason: Annotated[str, msgspec.Meta(max_length=MOST_REASON)] = ""
    by: Annotated[str, msgspec.Meta(max_length=MOST_BY)] = ""
    seconds: Annotated[float, msgspec.Meta(ge=0.0, le=MOST_SECONDS)] = 0.0


_decoder: Final = msgspec.json.Decoder(_Asked)


class _NotDoneError(Exception):
    """The request is not carried out; the message says why and what to do."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status: Final = status


async def load(context: PageContext, query: Mapping[str, str], now: float) -> PageData:
    """Return what holds now, as JSON."""
    check_parameters(query, ())
    current = context.sources.silences.current(now)
    return PageData(SilencesPage(tuple(map(_shown, current))), {})


async def change(context: PageContext, request: web.Request) -> web.Response:
    """Carry out one request and answer with the entry as it is now."""
    try:
        _check_origin(request)
        asked = await _read(request)
        entry = _carry_out(context, request.match_info["id"], asked, time.time())
    except _NotDoneError as error:
        return json_answer({"error": str(error)}, error.status)
    facts = {
        "finding": entry.finding,
        "action": entry.action,
        "reason": entry.reason,
        "by": entry.by,
        "until": stamp_exactly(entry.until),
    }
    LOGGER.info("finding %s", entry.action, extra={"facts": facts})
    return json_answer(_shown(entry))


def _check_origin(request: web.Request) -> None:
    """Raise _NotDoneError for a page of another site. A program sends neither header."""
    if context_of_page := request.headers.get("Sec-Fetch-Site"):
        is_own = context_of_page in ("same-origin", "none")
        _require(is_own, HTTPStatus.FORBIDDEN, "this comes from a page of another site")
    origin = request.headers.get("Origin")
    if origin is not None:
        is_own = urlsplit(origin).netloc.lower() == request.headers.get("Host", "").lower()
        why = "this comes from a page of another site: open the dashboard itself"
        _require(is_own, HTTPStatus.FORBIDDEN, why)


async def _read(request: web.Request) -> _Asked:
    """Return the body. Raises _NotDoneError."""
    is_json = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    why = "send JSON, with Content-Type: application/json"
    _require(is_json == "application/json", HTTPStatus.UNSUPPORTED_MEDIA_TYPE, why)
    length = request.content_length
    why = f"send a body of 1 to {_MOST_BYTES} bytes, with Content-Length"
    is_short = length is not None and 0 < length <= _MOST_BYTES
    _require(is_short, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, why)
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            asked = _decoder.decode(await request.read())
    except TimeoutError:
        _refuse(HTTPStatus.REQUEST_TIMEOUT, "the body did not arrive in time")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        _refuse(HTTPStatus.BAD_REQUEST, f"the body cannot be used: {error}")
    if asked.action != "end":
        _require(bool(asked.reason.strip()), HTTPStatus.BAD_REQUEST, "give a reason")
        most = f"{MOST_SECONDS:.0f}"
        why = f"give seconds, from 60 to {most}: how long it holds"
        _require(asked.seconds >= 60.0, HTTPStatus.BAD_REQUEST, why)  # noqa: PLR2004 - a minute
    return asked


def _carry_out(context: PageContext, finding: str, asked: _Asked, now: float) -> Silence:
    silences = context.sources.silences
    by = asked.by.strip()
    if asked.action == "end":
        ended = silences.end(finding, by, now)
        if ended is None:
            _refuse(HTTPStatus.NOT_FOUND, "the finding is neither acknowledged nor silenced")
        return ended
    known = context.sources.detecting.findings()
    found = next((one for one in known if one.id == finding), None)
    if found is None:
        _refuse(HTTPStatus.NOT_FOUND, "no finding has this id, on this replica")
    entry = Silence(
        found.id,
        _ACTIONS[asked.action],
        asked.reason.strip(),
        by,
        now,
        now + asked.seconds,
        found.severity,
    )
    try:
        return silences.put(entry, now)
    except TooManySilencesError:
        why = f"{MOST_SILENCES} findings are acknowledged or silenced already: end one of them"
        _refuse(HTTPStatus.CONFLICT, why)


def _require(holds: bool, status: HTTPStatus, why: str) -> None:  # noqa: FBT001 - as in `assert`
    if not holds:
        _refuse(status, why)


def _refuse(status: HTTPStatus, why: str) -> NoReturn:
    raise _NotDoneError(status, why)


def _shown(one: Silence) -> Mapping[str, object]:
    """Return an entry as the API shows it; times are RFC 3339."""
    times = {"at": stamp_exactly(one.at), "until": stamp_exactly(one.until)}
    return {**structs.asdict(one), **times}
