"""The tokens of the ops port: those of a cluster, or a single token in a file.

A cluster is asked as kube-rbac-proxy asks it: TokenReview, then SubjectAccessReview of a
non-resource URL, with the verb get. The path is /metrics for metrics, which the usual roles of
Prometheus grant, and /genguard for all the rest: a right to `/*` would open pages of the API server
itself. Answers are kept for a moment, so that a page with its style and script is one question; a
right that is taken away lasts for no longer than that.

A token file is read again when it has changed, and never where others can read it. A Secret that is
mounted with `defaultMode: 0440` and an `fsGroup` is readable to that group; what the rest of the
machine can read is no secret.
"""

import asyncio
import hashlib
import hmac
import os
import stat
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from webhook.server.access import Part, Refusal
from webhook.telemetry.logs import LOGGER

ALLOWED_SECONDS: Final = 60.0
REFUSED_SECONDS: Final = 10.0
MOST_KEPT: Final = 1_000
MOST_ASKED: Final = 4
"""Questions at once: clients with made-up tokens must not have genguard flood the API server."""
MOST_WAITING: Final = 64

ASKED: Final = {
    Part.METRICS: ("get", "/metrics"),
    Part.OBSERVED: ("get", "/genguard"),
}
"""The verb and the non-resource URL that a user must have for each part."""
_UNREACHED: Final = Refusal(503, "genguard: the API server, which knows tokens, does not answer.\n")
_BUSY: Final = Refusal(503, "genguard: too many tokens are being checked; try again.\n")
_UNKNOWN: Final = Refusal(401, "genguard: the cluster does not know this token.\n", asks=True)


class _Reviewed(NamedTuple):
    """The user of a token, "" for nobody, and whether that user may do what is asked."""

    user: str
    is_allowed: bool


class Reviewer(Protocol):
    """Asks the API server."""

    async def review(self, token: str, verb: str, path: str) -> tuple[str, bool] | None:
        """The user of a token, and whether that user may `verb` the path.

        None where the API server does not answer. Never raises.
        """


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
        """None where the user of the token may see that part."""
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
        return await asyncio.shield(asking)  # others wait for the same answer

    async def _ask(self, key: _Key, token: str) -> Refusal | None:
        verb, path = ASKED[key[1]]
        async with self._turns:
            found = await self._reviewer.review(token, verb, path)
        if found is None:
            return _UNREACHED
        reviewed = _Reviewed(*found)
        refusal = None if reviewed.is_allowed else _not_granted(reviewed.user, verb, path)
        seconds = REFUSED_SECONDS if refusal else ALLOWED_SECONDS
        self._kept[key] = self._clock() + seconds, refusal
        self._kept.move_to_end(key)
        if len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return refusal


def _not_granted(user: str, verb: str, path: str) -> Refusal:
    if not user:
        return _UNKNOWN
    return Refusal(
        403,
        f"genguard: {user} may not {verb} the non-resource URL {path}.\n\n"
        "Who may grant it:\n"
        f"  kubectl create clusterrole genguard-view --verb={verb} --non-resource-url={path}\n"
        f"  kubectl create clusterrolebinding NAME --clusterrole=genguard-view --user=USER\n",
    )


SHORTEST_TOKEN: Final = 16
"""Characters; shorter ones can be tried out."""
_MOST_BYTES: Final = 8_192
_UNUSABLE: Final = Refusal(503, "genguard: its token file cannot be used; its log says why.\n")
_WRONG: Final = Refusal(401, "genguard: this is not the token.\n", asks=True)


class BadTokenFileError(ValueError):
    """The file is of no use; the message says which, why, and what to do."""


class TokenFile:
    """The Tokens of a file."""

    def __init__(self, path: Path) -> None:
        """Raise BadTokenFileError when there is no usable token at the start."""
        self._path: Final = path
        self._seen, self._digest = self._read()
        self._last_error = ""

    async def refuses(self, token: str, part: Part) -> Refusal | None:
        """None for the token of the file, which is good for everything."""
        del part
        try:
            if self._state() != self._seen:
                self._seen, self._digest = self._read()
                self._last_error = ""
        except BadTokenFileError as error:
            if str(error) != self._last_error:
                self._last_error = str(error)
                LOGGER.error("token file refused", extra={"facts": {"reason": self._last_error}})
            return _UNUSABLE  # the file may have been taken away on purpose
        return None if hmac.compare_digest(_digest(token), self._digest) else _WRONG

    def _read(self) -> tuple[tuple[int, ...], bytes]:
        state = self._state()
        try:
            with self._path.open("rb") as file:
                content = file.read(_MOST_BYTES + 1)
        except OSError as error:
            raise BadTokenFileError(f"{self._path}: {error.strerror}") from error
        try:
            token = content.decode().strip()
        except UnicodeDecodeError:
            token = ""
        is_long_enough = len(token) >= SHORTEST_TOKEN
        if not is_long_enough or len(content) > _MOST_BYTES or not token.isprintable():
            raise BadTokenFileError(
                f"{self._path}: it must hold one token of {SHORTEST_TOKEN} characters at least; "
                "make one with: openssl rand -hex 32"
            )
        return state, _digest(token)

    def _state(self) -> tuple[int, ...]:
        """Numbers that change when the file is changed or replaced."""
        try:
            found = os.stat(self._path)  # noqa: PTH116 - follows the links of a mounted Secret
        except OSError as error:
            raise BadTokenFileError(f"{self._path}: {error.strerror}") from error
        if found.st_mode & stat.S_IRWXO:
            raise BadTokenFileError(
                f"{self._path}: everybody on this machine can read it; chmod o= {self._path}, or "
                "defaultMode: 0440 of a mounted Secret"
            )
        return found.st_ino, found.st_dev, found.st_mtime_ns, found.st_size


def _digest(token: str) -> bytes:
    """A hash, of equal length whatever the token: the time of a comparison shows nothing of it."""
    return hashlib.sha256(token.encode()).digest()
