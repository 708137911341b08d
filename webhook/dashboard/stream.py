"""GET /events: server-sent events that say when a page has something new to show.

`turn` when findings have changed, with how many are open; `beat` each few seconds otherwise, so
that a page can tell quiet from a connection that is lost. Nothing of any object is in them.
"""

import asyncio
import contextlib
from collections import Counter
from typing import Final

import msgspec
from aiohttp import web

from webhook.detection.finding import Finding, Severity
from webhook.server.detecting import Detecting

MOST_LISTENERS: Final = 32
_LOOK_SECONDS: Final = 1.0
_BEAT_SECONDS: Final = 5.0
LIFETIME_SECONDS: Final = 300.0
"""After it the browser connects again by itself, and shows its token again."""

_TOO_MANY: Final = (
    f"genguard: {MOST_LISTENERS} pages are kept up to date already, and no more are. Reload this "
    "page to see news, or close another.\n"
)


class Stream:
    """The listeners of one server."""

    def __init__(self, detecting: Detecting) -> None:
        self._detecting: Final = detecting
        self._listeners: Final[set[asyncio.Task[None]]] = set()

    async def listen(self, request: web.Request) -> web.StreamResponse:
        """Tell until the browser goes, the server stops or the time is over."""
        if len(self._listeners) >= MOST_LISTENERS:
            return web.Response(status=503, text=_TOO_MANY, headers={"Retry-After": "60"})
        response = web.StreamResponse()
        response.content_type = "text/event-stream"
        await response.prepare(request)
        telling = asyncio.create_task(self._tell(request, response))
        self._listeners.add(telling)
        try:
            with contextlib.suppress(ConnectionError, TimeoutError, asyncio.CancelledError):
                await telling
        finally:
            telling.cancel()
            self._listeners.discard(telling)
        return response

    def close(self) -> None:
        """End them all: a stopping server would wait for them."""
        for telling in self._listeners:
            telling.cancel()

    async def _tell(self, request: web.Request, response: web.StreamResponse) -> None:
        clock = asyncio.get_running_loop().time
        known, told = self._detecting.latest, clock()
        # A browser that does not read keeps write() waiting: it must not keep its place, either.
        async with asyncio.timeout(LIFETIME_SECONDS):
            await response.write(_event("beat", known))
            while request.transport is not None:  # the browser is there
                await asyncio.sleep(_LOOK_SECONDS)
                found = self._detecting.latest
                if found is not known:
                    known, told = found, clock()
                    await response.write(_event("turn", known))
                elif clock() - told >= _BEAT_SECONDS:
                    told = clock()
                    await response.write(_event("beat", known))


def _event(name: str, findings: tuple[Finding, ...]) -> bytes:
    is_open = Counter(one.severity for one in findings if one.state != "resolved")
    counts = {one.value: is_open[one] for one in reversed(Severity) if is_open[one]}
    data = msgspec.json.encode(counts)
    return b"event: %b\nretry: 2000\ndata: %b\n\n" % (name.encode(), data)
