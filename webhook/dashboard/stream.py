"""GET /events: server-sent events that tell a page when to reload its data.

`turn` when findings have changed, with the number of open ones; `move` when objects have become
settled or unsettled; `beat` every few seconds otherwise, so that a page notices a lost connection.
Events hold nothing of any object.
"""

import asyncio
import contextlib
from typing import Final

import msgspec
from aiohttp import web

from genguard.detection.finding import Finding
from webhook.dashboard.finding_query import count_open
from webhook.server.detecting import Detecting

MOST_LISTENERS: Final = 32
_POLL_SECONDS: Final = 1.0
_BEAT_SECONDS: Final = 5.0
LIFETIME_SECONDS: Final = 300.0
"""After this time the browser reconnects by itself and sends its token again."""

_TOO_MANY: Final = (
    f"genguard: {MOST_LISTENERS} pages are updated live already, which is the limit. Reload this "
    "page to update it, or close another page.\n"
)


class Stream:
    """The event streams of one server."""

    def __init__(self, detecting: Detecting) -> None:
        self._detecting: Final = detecting
        self._listeners: Final[set[asyncio.Task[None]]] = set()

    async def listen(self, request: web.Request) -> web.StreamResponse:
        """Send events until the browser leaves, the server stops or the lifetime ends."""
        if len(self._listeners) >= MOST_LISTENERS:
            return web.Response(status=503, text=_TOO_MANY, headers={"Retry-After": "60"})
        response = web.StreamResponse()
        response.content_type = "text/event-stream"
        await response.prepare(request)
        sending = asyncio.create_task(self._send(request, response))
        self._listeners.add(sending)
        try:
            with contextlib.suppress(ConnectionError, TimeoutError, asyncio.CancelledError):
                await sending
        finally:
            sending.cancel()
            self._listeners.discard(sending)
        return response

    def close(self) -> None:
        """End all streams: a stopping server would wait for them."""
        for sending in self._listeners:
            sending.cancel()

    async def _send(self, request: web.Request, response: web.StreamResponse) -> None:
        clock = asyncio.get_running_loop().time
        tracking = self._detecting.tracking
        known, sent_at = self._detecting.latest, clock()
        moved = tracking.blocking_changes
        # A browser that does not read blocks write(): the timeout ends it, too.
        async with asyncio.timeout(LIFETIME_SECONDS):
            await response.write(_event("beat", known))
            while request.transport is not None:  # the browser is connected
                await asyncio.sleep(_POLL_SECONDS)
                found = self._detecting.latest
                if found is not known:
                    known, sent_at = found, clock()
                    await response.write(_event("turn", known))
                elif tracking.blocking_changes != moved:
                    moved, sent_at = tracking.blocking_changes, clock()
                    await response.write(_event("move", known))
                elif clock() - sent_at >= _BEAT_SECONDS:
                    sent_at = clock()
                    await response.write(_event("beat", known))


def _event(name: str, findings: tuple[Finding, ...]) -> bytes:
    counts = {severity: count for severity, count in count_open(findings).items() if count}
    data = msgspec.json.encode(counts)
    return b"event: %b\nretry: 2000\ndata: %b\n\n" % (name.encode(), data)
