"""A Valkey or Redis server, as valkey-py reaches it.

valkey-py connects, speaks TLS, authenticates, retries and gives up. Here are its errors in our own
words, the number of commands by result, and whether the server is away. What the server answers is
returned as it is: whoever asked checks its form.
"""

import asyncio
import contextlib
import ssl
from collections import Counter
from typing import Any, Final

from valkey import exceptions
from valkey.asyncio import Valkey
from valkey.asyncio.retry import Retry
from valkey.backoff import ExponentialBackoff
from valkey.credentials import CredentialProvider
from valkey.exceptions import ResponseError, ValkeyError

from webhook.store.address import ValkeyAddress
from webhook.telemetry.logs import LOGGER

Command = tuple[str | bytes | int, ...]
"""A command of the store, and its arguments."""

ANSWER_SECONDS: Final = 0.02
"""The longest that an answer to the API server waits for the store."""
_SECONDS: Final = 1.0
"""The longest wait for a reply, and for a connection; no answer to the API server waits for it."""
_MOST_CONNECTIONS: Final = 50
_LATE: Final = "no answer in time"


class StoreLostError(Exception):
    """The store cannot be used now; the message says why, in our own words."""


class _NoPasswordError(exceptions.AuthenticationError):
    """The file of the password cannot be read."""


_REASONS: Final = (
    (_NoPasswordError, "the password-file cannot be read"),
    (exceptions.AuthenticationError, "user or password refused"),
    (exceptions.NoPermissionError, "the user may not do all that is needed; see its ACL"),
    (exceptions.OutOfMemoryError, "the store is full"),
    (exceptions.ReadOnlyError, "the store is a replica that cannot be written to"),
    (exceptions.BusyLoadingError, "the store is loading its data"),
    (ResponseError, "refused; are the names another program's? give --store another ?prefix="),
    (FileNotFoundError, "the cafile is not there"),
    (ssl.SSLError, "TLS failed; is the certificate's authority the one of cafile?"),
    (TimeoutError, _LATE),
    (exceptions.TimeoutError, _LATE),
    ((ValkeyError, OSError), "not connected"),
    # The library's parser: a length that is no number, arrays in arrays without end.
    (Exception, "the store gave an answer of no known form"),
)


class Store:
    """Sends commands, and knows whether the server answered last; `up` is set by who sends."""

    def __init__(self, address: ValkeyAddress) -> None:
        """Prepare without connecting."""
        has_password = address.password is not None or address.password_file is not None
        self._client: Final = Valkey(
            host=address.host,
            port=address.port,
            db=address.db,
            credential_provider=_Credentials(address) if has_password else None,
            ssl=address.tls,
            ssl_check_hostname=True,
            ssl_ca_certs=None if address.cafile is None else str(address.cafile),
            socket_timeout=_SECONDS,
            socket_connect_timeout=_SECONDS,
            max_connections=_MOST_CONNECTIONS,
            retry=Retry(ExponentialBackoff(cap=0.5, base=0.05), 1),
            retry_on_error=[exceptions.ConnectionError, exceptions.TimeoutError],
            lib_name=None,  # CLIENT SETINFO takes a right that a narrow ACL does not give
            lib_version=None,
        )
        self._client.response_callbacks.clear()  # they fail for odd replies in ways of their own
        self.requests: Final[Counter[tuple[str, str]]] = Counter()
        """Commands by operation and result."""
        self.up = False
        self._reason = ""

    async def send(self, operation: str, *commands: Command) -> list[Any]:
        """Send commands in one round trip, and return the replies. Raises StoreLostError."""
        try:
            async with self._client.pipeline(transaction=False) as pipeline:
                for command in commands:
                    pipeline.execute_command(*command)
                replies = list(await pipeline.execute())
        except (ValkeyError, OSError, ValueError, TypeError, LookupError, RecursionError) as error:
            self.requests[operation, "lost"] += len(commands)
            raise StoreLostError(_reason_of(error)) from error
        self.requests[operation, "ok"] += len(commands)
        return replies

    async def ask(self, operation: str, command: Command) -> Any:
        """Return a reply within ANSWER_SECONDS. Raises StoreLostError, at once if it is away."""
        if not self.up:
            self.requests[operation, "skipped"] += 1
            raise StoreLostError("away")
        try:
            async with asyncio.timeout(ANSWER_SECONDS):  # valkey-py then drops the connection
                (reply,) = await self.send(operation, command)
        except TimeoutError as error:
            self.requests[operation, "timeout"] += 1
            raise StoreLostError(_LATE) from error
        return reply

    def note(self, reason: str) -> None:
        """Note that the server answered ("") or why not, and log it if that has changed."""
        before, self._reason, self.up = self._reason, reason, not reason
        if reason and reason != before:
            fields = {"reason": reason, "effect": "each replica uses its own memory"}
            LOGGER.warning("store lost", extra={"fields": fields})
        elif not reason and before:
            LOGGER.info("store is back")

    async def close(self) -> None:
        """Close all connections."""
        with contextlib.suppress(ValkeyError, OSError):
            await self._client.aclose(close_connection_pool=True)


def _reason_of(error: BaseException) -> str:
    """Return why something failed. The server's own text is left out: it may quote a command."""
    causes = (error, error.__cause__, error.__context__)
    return next(
        reason for kind, reason in _REASONS if any(isinstance(cause, kind) for cause in causes)
    )


class _Credentials(CredentialProvider):
    """Reads the password at each connection: its file may have been renewed."""

    def __init__(self, address: ValkeyAddress) -> None:
        self._address: Final = address

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        password, file = self._address.password or "", self._address.password_file
        if file is not None:
            try:
                password = file.read_text().strip()
            except (OSError, UnicodeDecodeError) as error:
                raise _NoPasswordError from error
        return (password,) if self._address.user is None else (self._address.user, password)
