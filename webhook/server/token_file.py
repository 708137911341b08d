"""One token for all, in a file: read again when it has changed, and never where others can read it.

A Secret that is mounted with `defaultMode: 0440` and an `fsGroup` is readable to that group; what
the rest of the machine can read is no secret.
"""

import hashlib
import hmac
import os
import stat
from pathlib import Path
from typing import Final

from webhook.server.access import Part, Refusal
from webhook.telemetry.logs import LOGGER

SHORTEST: Final = 16
"""Characters; shorter ones can be tried out."""
_MOST_BYTES: Final = 8_192
_UNUSABLE: Final = Refusal(503, "genguard: its token file cannot be used; its log says why.\n")
_WRONG: Final = Refusal(401, "genguard: this is not the token.\n", asks=True)


class BadTokenFileError(ValueError):
    """The file is of no use; the message says which, why, and what to do."""


class TokenFile:
    """The Tokens of a file."""

    def __init__(self, path: Path) -> None:
        """Raise BadTokenFileError when there is no usable token to begin with."""
        self._path: Final = path
        self._seen, self._digest = self._read()
        self._told = ""

    async def refuses(self, token: str, part: Part) -> Refusal | None:
        """None for the token of the file, which shows everything."""
        del part
        try:
            if self._state() != self._seen:
                self._seen, self._digest = self._read()
                self._told = ""
        except BadTokenFileError as error:
            if str(error) != self._told:
                self._told = str(error)
                LOGGER.error("token file refused", extra={"facts": {"reason": self._told}})
            return _UNUSABLE  # who took the file away may have meant it
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
        if not len(token) >= SHORTEST or len(content) > _MOST_BYTES or not token.isprintable():
            raise BadTokenFileError(
                f"{self._path}: it must hold one token of {SHORTEST} characters at least; make one "
                f"with: openssl rand -hex 32"
            )
        return state, _digest(token)

    def _state(self) -> tuple[int, ...]:
        """What is another value once the file is another."""
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
    """Of equal length whatever the token: comparing tells nothing of it."""
    return hashlib.sha256(token.encode()).digest()
