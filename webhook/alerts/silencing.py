"""Mirrors silences of findings to every Alertmanager peer, by its API v2.

The alert of a silenced finding is still sent, since the damage is still there: to stop sending it
would have Alertmanager report it as resolved. A silence in Alertmanager suppresses its
notifications, is shown there with its reason, and ends by itself at the same time. Where
Alertmanager refuses a silence, people are notified as before.

Only silences that genguard created are ever changed or ended, and only those of findings that it
knows a silence of: what another replica created, or this one before a restart, stays until its end.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import aiohttp
import msgspec

from genguard.detection.finding import Finding
from genguard.detection.silences import Silence, Silences
from genguard.objects.shown import printable, without_credentials
from webhook.alerts.alertmanager import RESEND
from webhook.alerts.change import Change
from webhook.telemetry.logs import LOGGER

CREATOR: Final = "genguard"
_LABEL: Final = "finding"
_SECONDS: Final = 5.0
_CHUNK_BYTES: Final = 64 * 1024
_MOST_BYTES: Final = 8 * 1024 * 1024
"""Of the silences that an Alertmanager lists; more are not read."""


class _State(msgspec.Struct):
    state: str


class _Matcher(msgspec.Struct, rename="camel"):
    name: str
    value: str
    is_regex: bool = False
    is_equal: bool = True


class _Listed(msgspec.Struct, rename="camel"):
    """One silence as Alertmanager lists it."""

    id: str
    status: _State
    created_by: str
    comment: str
    starts_at: str
    ends_at: str
    matchers: tuple[_Matcher, ...]

    @property
    def finding(self) -> str:
        """The finding that it silences; "" if it is not one of ours, or over."""
        if self.created_by != CREATOR or self.status.state == "expired":
            return ""
        if len(self.matchers) != 1 or self.matchers[0].is_regex or not self.matchers[0].is_equal:
            return ""
        return self.matchers[0].value if self.matchers[0].name == _LABEL else ""


class _PeerError(Exception):
    """Alertmanager answered with an error."""


class AlertmanagerSilencer:
    """A Sink that keeps the silences of every peer as those of the findings.

    After a change, and every RESEND otherwise, the peers are brought up to date one after the
    other, a second apart: peers of one cluster have told each other by then.
    """

    def __init__(
        self,
        urls: Iterable[str],
        silences: Silences,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`urls` are those of the peers, such as http://alertmanager:9093; `clock` Unix seconds."""
        self._urls: Final = tuple(url.rstrip("/") for url in urls)
        self._silences: Final = silences
        self._clock: Final = clock
        self._session: aiohttp.ClientSession | None = None
        self._seen: object = None
        self._due = float("-inf")
        self._behind: list[str] = []

    async def tell(self, changes: tuple[Change, ...], findings: tuple[Finding, ...]) -> None:
        """Bring one peer up to date, if any is not."""
        del changes
        now = self._clock()
        known = {one.finding: one for one in self._silences.all(now)}
        if not known:
            return
        wanted = dict(_wanted(known, findings, now))
        seen = wanted, set(known)
        # Less than 0: the clock was set back.
        if seen != self._seen or not 0 <= self._due - now <= RESEND.total_seconds():
            self._seen, self._due = seen, now + RESEND.total_seconds()
            self._behind = list(self._urls)
        if self._behind:
            await self._update(self._behind.pop(0), wanted, known, now)

    async def close(self) -> None:
        """Close connections. Silences end at their time."""
        if self._session is not None:
            await self._session.close()

    async def _update(
        self, url: str, wanted: Mapping[str, Silence], known: Iterable[str], now: float
    ) -> None:
        try:
            async with asyncio.timeout(_SECONDS):
                listed = await self._list(url)
                for finding in known:
                    await self._mirror(url, wanted.get(finding), listed.get(finding, ()), now)
        except (_PeerError, msgspec.MsgspecError, aiohttp.ClientError, OSError) as error:
            reason = str(error) if isinstance(error, _PeerError) else type(error).__name__
            facts = {
                "url": without_credentials(url),
                "reason": reason,
                "effect": "silenced findings notify there",
            }
            LOGGER.warning("silences not mirrored", extra={"facts": facts})

    async def _mirror(
        self, url: str, wanted: Silence | None, listed: Iterable[_Listed], now: float
    ) -> None:
        """Create, change or end the silence of one finding."""
        ours = sorted(listed, key=lambda one: one.id)
        first = ours[0] if ours else None
        for double in ours[1:]:
            await self._call("DELETE", f"{url}/api/v2/silence/{double.id}")
        if wanted is None:
            if first is not None:
                await self._call("DELETE", f"{url}/api/v2/silence/{first.id}")
            return
        body = _body(wanted, now)
        if first is not None:
            if first.comment == body["comment"] and _near(first.ends_at, wanted.until):
                return
            body |= {"id": first.id, "startsAt": first.starts_at}
        await self._call("POST", f"{url}/api/v2/silences", body)

    async def _list(self, url: str) -> Mapping[str, list[_Listed]]:
        """Return our silences of one peer, by finding.

        All silences are listed: a filter finds only those with the same matcher, value included.
        """
        found: dict[str, list[_Listed]] = {}
        content = await self._call("GET", f"{url}/api/v2/silences")
        for one in msgspec.json.decode(content, type=list[_Listed]):
            if one.finding:
                found.setdefault(one.finding, []).append(one)
        return found

    async def _call(self, method: str, url: str, body: Any = None) -> bytes:
        """Send one request and return the answer's body. Raises _PeerError, as aiohttp does."""
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_SECONDS))
        async with self._session.request(method, url, json=body, allow_redirects=False) as answer:
            if answer.status >= 300:  # noqa: PLR2004 - the first status that is not a success
                raise _PeerError(str(answer.status))
            content = bytearray()
            async for chunk in answer.content.iter_chunked(_CHUNK_BYTES):
                content += chunk
                if len(content) > _MOST_BYTES:
                    raise _PeerError("its list of silences is too long")
            return bytes(content)


def _wanted(
    known: Mapping[str, Silence], findings: Iterable[Finding], now: float
) -> Iterator[tuple[str, Silence]]:
    """Yield the silences that Alertmanager should have, by finding."""
    found = {one.id: one for one in findings if one.id in known}
    for name, silence in known.items():
        finding = found.get(name)
        if silence.until > now and silence.is_silent(finding):
            yield name, silence


def _body(silence: Silence, now: float) -> dict[str, Any]:
    by = f" ({silence.by})" if silence.by else ""
    return {
        "matchers": [{"name": _LABEL, "value": silence.finding, "isRegex": False, "isEqual": True}],
        "startsAt": _text(now),
        "endsAt": _text(silence.until),
        "createdBy": CREATOR,
        "comment": printable(f"{silence.reason}{by}"),
    }


def _near(text: str, at: float) -> bool:
    """Whether a time of Alertmanager's is the same, to the second."""
    return abs(datetime.fromisoformat(text).timestamp() - at) < 1.0


def _text(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
