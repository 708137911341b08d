"""A Valkey or Redis server, as valkey-py reaches it.

valkey-py connects, speaks TLS, authenticates, retries and gives up. Here are its errors in our own
words, the number of commands by result, and whether the server is away. What the server answers is
returned as it is: whoever asked checks its form.
"""

import asyncio
import contextlib
import ssl
from collections import Counter
from pathlib import Path
from typing import Any, Final

import msgspec
from valkey.asyncio import ConnectionPool, Valkey
from valkey.asyncio.connection import SSLConnection
from valkey.asyncio.retry import Retry
from valkey.backoff import ExponentialBackoff
from valkey.credentials import CredentialProvider
from valkey.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    ValkeyError,
)
from valkey.exceptions import ConnectionError as ValkeyConnectionError
from valkey.exceptions import TimeoutError as ValkeyTimeoutError

from webhook.store.address import ValkeyAddress
from webhook.telemetry.logs import LOGGER

Command = tuple[str | bytes | int, ...]
"""A command of the store, and its arguments."""

ANSWER_SECONDS: Final = 0.02
"""The longest that an answer to the API server waits for the store."""
BLOCK_MILLISECONDS: Final = 1_000
"""How long the server holds back its reply while the stream has no new message."""
_SECONDS: Final = 1.0
"""The longest wait for a reply, and for a connection; no answer to the API server waits for it."""
_READ_SECONDS: Final = 5.0
"""The same of a reply that the server may hold back."""
_RETRIES: Final = 1
_MOST_CONNECTIONS: Final = 50
_UNKNOWN_FORM: Final = "the store gave an answer of no known form"
_WRONG_TYPE: Final = "another program uses names of genguard's; give --store another ?prefix="
_LATE: Final = "no answer in time"


class StoreLostError(Exception):
    """The store cannot be used now; the message says why, in our own words."""

    def says(self, word: str) -> bool:
        """Whether the server refused a command with this word."""
        return _says(self.__cause__, word)


class _NoPasswordError(AuthenticationError):
    """The file of the password cannot be read."""


_REASONS: Final = (
    (_NoPasswordError, "the password-file cannot be read"),
    (AuthenticationError, "user or password refused"),
    (NoPermissionError, "the user may not do all that is needed; see its ACL"),
    (OutOfMemoryError, "the store is full"),
    (ReadOnlyError, "the store is a replica that cannot be written to"),
    (BusyLoadingError, "the store is loading its data"),
    (ResponseError, "a command was refused"),
    (ssl.SSLError, "TLS failed; is the certificate's authority the one of cafile?"),
    (TimeoutError, _LATE),
    (ValkeyTimeoutError, _LATE),
)


class Store:
    """Sends commands, and knows whether the server answered last; `up` is set by who sends."""

    def __init__(self, address: ValkeyAddress) -> None:
        """Prepare without connecting."""
        retry = Retry(ExponentialBackoff(cap=0.5, base=0.05), _RETRIES)
        self._client: Final = _client(address, _SECONDS, retry)
        self._reader: Final = _client(address, _READ_SECONDS, None)
        self.requests: Final[Counter[tuple[str, str]]] = Counter()
        """Commands by operation and result."""
        self.up = False
        self._reason = ""
        self._asking: Final[set[asyncio.Task[list[Any]]]] = set()

    async def send(self, operation: str, *commands: Command) -> list[Any]:
        """Send commands in one round trip, and return the replies. Raises StoreLostError."""
        return await self._counted(operation, commands, self._client)

    async def read(self, operation: str, command: Command) -> Any:
        """Send a command whose reply may be held back. Raises StoreLostError."""
        (reply,) = await self._counted(operation, (command,), self._reader)
        return reply

    async def ask(self, operation: str, command: Command) -> Any:
        """Return a reply within ANSWER_SECONDS. Raises StoreLostError, at once if it is away."""
        if not self.up:
            self.requests[operation, "skipped"] += 1
            raise StoreLostError("away")
        asking = asyncio.create_task(self._counted(operation, (command,), self._client))
        # Not cancelled: valkey-py would leave its reply to the next command of the connection.
        self._asking.add(asking)
        asking.add_done_callback(self._end)
        await asyncio.wait((asking,), timeout=ANSWER_SECONDS)
        if not asking.done():
            self.requests[operation, "timeout"] += 1
            raise StoreLostError(_LATE)
        return asking.result()[0]

    def _end(self, asking: "asyncio.Task[list[Any]]") -> None:
        self._asking.discard(asking)
        if not asking.cancelled():
            asking.exception()  # nobody may wait for it any more

    def note(self, reason: str) -> None:
        """Note that the server answered ("") or why not, and log it if that has changed."""
        before, self._reason, self.up = self._reason, reason, not reason
        if reason and reason != before:
            facts = {"reason": reason, "effect": "each replica uses its own memory"}
            LOGGER.warning("store lost", extra={"facts": facts})
        elif not reason and before:
            LOGGER.info("store is back")

    async def close(self) -> None:
        """Close all connections."""
        for asking in tuple(self._asking):
            asking.cancel()
        for client in (self._client, self._reader):
            with contextlib.suppress(ValkeyError, OSError):
                await client.aclose(close_connection_pool=True)

    async def _counted(
        self, operation: str, commands: tuple[Command, ...], client: Valkey
    ) -> list[Any]:
        try:
            replies = await _replies(client, commands)
        except StoreLostError:
            self.requests[operation, "lost"] += len(commands)
            raise
        self.requests[operation, "ok"] += len(commands)
        return replies


def of_form(reply: Any, form: Any) -> Any:
    """Return a reply that has this form. Raises StoreLostError for any other."""
    try:
        return msgspec.convert(reply, form)
    except msgspec.ValidationError as error:
        raise StoreLostError(_UNKNOWN_FORM) from error


async def _replies(client: Valkey, commands: tuple[Command, ...]) -> list[Any]:
    try:
        async with client.pipeline(transaction=False) as pipeline:
            for command in commands:
                pipeline.execute_command(*command)
            return list(await pipeline.execute())
    except (ValkeyError, OSError) as error:
        raise StoreLostError(_reason_of(error)) from error
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        # The library's parser: a length that is no number, arrays in arrays without end.
        raise StoreLostError(_UNKNOWN_FORM) from error


def _reason_of(error: BaseException) -> str:
    """Return why something failed. The server's own text is left out: it may quote a command."""
    causes = (error, error.__cause__, error.__context__)
    if any(_says(one, "WRONGTYPE") for one in causes):
        return _WRONG_TYPE
    for kind, reason in _REASONS:
        if any(isinstance(one, kind) for one in causes):
            return reason
    return "not connected"


def _says(error: BaseException | None, word: str) -> bool:
    return isinstance(error, ResponseError) and word in str(error)


class _PasswordFile(CredentialProvider):
    """Reads the password at each connection: it may have been renewed."""

    def __init__(self, user: str | None, path: Path) -> None:
        self._user: Final = user
        self._path: Final = path

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        try:
            password = self._path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise _NoPasswordError from error
        return (password,) if self._user is None else (self._user, password)


def _client(address: ValkeyAddress, seconds: float, retry: Retry | None) -> Valkey:
    arguments: dict[str, Any] = {
        "host": address.host,
        "port": address.port,
        "db": address.db,
        "username": address.user,
        "password": address.password,
        "socket_timeout": seconds,
        "socket_connect_timeout": _SECONDS,
        "max_connections": _MOST_CONNECTIONS,
        "lib_name": None,  # CLIENT SETINFO takes a right that a narrow ACL does not give
        "lib_version": None,
    }
    if address.password_file is not None:
        del arguments["username"], arguments["password"]
        arguments["credential_provider"] = _PasswordFile(address.user, address.password_file)
    if address.tls:
        arguments["connection_class"] = SSLConnection
        arguments["ssl_check_hostname"] = True
        arguments["ssl_ca_certs"] = None if address.cafile is None else str(address.cafile)
    if retry is not None:
        arguments["retry"] = retry
        arguments["retry_on_error"] = [ValkeyConnectionError, ValkeyTimeoutError]
    client = Valkey.from_pool(ConnectionPool(**arguments))
    client.response_callbacks.clear()  # they fail for odd replies in ways of their own
    return client
