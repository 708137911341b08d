"""Tokens of a cluster: the API server knows whose they are, and who may see what.

Asked as kube-rbac-proxy asks: TokenReview, then SubjectAccessReview of a non-resource URL with the
verb get. The path is /metrics for metrics, which the usual roles of Prometheus grant, and /genguard
for all the rest: a right to `/*` would open pages of the API server itself. Answers are kept for a
moment, so that a page with its style and script is one question; a right that is taken away lasts
for no longer than that.
"""

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from webhook.server.access import Part, Refusal

ALLOWED_SECONDS: Final = 60.0
REFUSED_SECONDS: Final = 10.0
MOST_KEPT: Final = 1_000
MOST_ASKED: Final = 4
"""Questions at once: who sends made-up tokens must not have genguard flood the API server."""
MOST_WAITING: Final = 64

PATHS: Final = {Part.METRICS: "/metrics", Part.OBSERVED: "/genguard"}
_UNREACHED: Final = Refusal(503, "genguard: the API server, which knows tokens, does not answer.\n")
_BUSY: Final = Refusal(503, "genguard: too many tokens are being checked; try again.\n")
_UNKNOWN: Final = Refusal(401, "genguard: the cluster does not know this token.\n", asks=True)


class Standing(NamedTuple):
    """Whose token it is, "" for nobody's, and whether they may get the path."""

    user: str
    may: bool


class Reviewer(Protocol):
    """Asks the API server."""

    async def review(self, token: str, path: str) -> tuple[str, bool] | None:
        """A Standing; None when it cannot be asked. Never raises."""


_Key = tuple[bytes, Part]


class ReviewedTokens:
    """The Tokens of a cluster."""

    def __init__(self, reviewer: Reviewer, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` in seconds."""
        self._reviewer: Final = reviewer
        self._clock: Final = clock
        self._kept: Final[OrderedDict[_Key, tuple[float, Refusal | None]]] = OrderedDict()
        self._asking: Final[dict[_Key, asyncio.Task[Refusal | None]]] = {}
        self._turns: Final = asyncio.Semaphore(MOST_ASKED)

    async def refuses(self, token: str, part: Part) -> Refusal | None:
        """None for who may see that part."""
        key = hashlib.sha256(token.encode()).digest(), part
        known = self._kept.get(key)
        if known is not None and self._clock() < known[0]:
            return known[1]
        asking = self._asking.get(key)
        if asking is None:
            if len(self._asking) >= MOST_WAITING:
                return _BUSY
            asking = self._asking[key] = asyncio.create_task(self._ask(key, token))
            asking.add_done_callback(lambda _: self._asking.pop(key, None))
        return await asyncio.shield(asking)  # one who goes away leaves the others their answer

    async def _ask(self, key: _Key, token: str) -> Refusal | None:
        path = PATHS[key[1]]
        async with self._turns:
            found = await self._reviewer.review(token, path)
        if found is None:
            return _UNREACHED
        standing = Standing(*found)
        refusal = None if standing.may else _refusal(standing.user, path)
        seconds = REFUSED_SECONDS if refusal else ALLOWED_SECONDS
        self._kept[key] = self._clock() + seconds, refusal
        self._kept.move_to_end(key)
        if len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return refusal


def _refusal(user: str, path: str) -> Refusal:
    if not user:
        return _UNKNOWN
    return Refusal(
        403,
        f"genguard: {user} may not get the non-resource URL {path}.\n\n"
        "Who may grant it:\n"
        f"  kubectl create clusterrole genguard-view --verb=get --non-resource-url={path}\n"
        "  kubectl create clusterrolebinding NAME --clusterrole=genguard-view --user=USER\n",
    )
