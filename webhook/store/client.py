"""Connections to a Valkey or Redis server, made by valkey-py.

valkey-py connects, speaks TLS, authenticates, subscribes, packs commands and parses replies. Its
client follows the stream (StreamClient), and its PubSub reads a channel (`subscribe`).

The commands of a write go through CommandPipeline instead, over one connection of valkey-py:
- The library reuses a connection without noticing that a reply is left unread in it. After one
  unexpected reply, every later command would get the reply to another command. Here an unexpected
  reply ends the connection.
- A command through the library's client takes 1.2 to 2.5 times the CPU that it takes here, where
  all commands of one turn of the event loop are written together. The library's Pipeline takes as
  little, but the next batch has to wait until every reply to the last one has been read.

Nothing is retried here: a reply that is late is of no use to its write. The CircuitBreaker and
SharedDetection connect again.
"""

import asyncio
import contextlib
import ssl
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from valkey.asyncio import ConnectionPool, Valkey
from valkey.asyncio.connection import Connection, SSLConnection
from valkey.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    ValkeyError,
)
from valkey.exceptions import TimeoutError as ValkeyTimeoutError

from webhook.store.address import ValkeyAddress
from webhook.store.circuit_breaker import Answer, Command, StoreLostError
from webhook.store.stream import MOST_AT_ONCE, order
from webhook.tasks.threads import in_thread

UNKNOWN_FORM: Final = "the store gave an answer of no known form"
_CONNECT_SECONDS: Final = 1.0
_WRONG_TYPE: Final = "another program uses names of genguard's; give --store another ?prefix="
_ANSWER_SECONDS: Final = 5.0
"""The longest wait for a reply about the stream; no admission answer waits for it."""
_WAIT_MILLISECONDS: Final = 1_000
"""How long the server holds back its reply while the stream has no new message."""
_PushedMessage = tuple[bytes, bytes, bytes | int]
"""What a subscriber receives: a kind, a channel, and a message or the number of channels."""
_Fields = Annotated[tuple[bytes, ...], msgspec.Meta(min_length=2)]
_Entries = tuple[tuple[bytes, _Fields], ...]
_Streams = tuple[tuple[bytes, _Entries]] | None
_REASONS: Final = (
    (AuthenticationError, "user or password refused"),
    (NoPermissionError, "the user may not do all that is needed; see its ACL"),
    (OutOfMemoryError, "the store is full"),
    (ReadOnlyError, "the store is a replica that cannot be written to"),
    (BusyLoadingError, "the store is loading its data"),
    (ResponseError, "a command was refused"),
    (ssl.SSLError, "TLS failed; is the certificate's authority the one of cafile?"),
    (TimeoutError, "no answer in time"),
    (ValkeyTimeoutError, "no answer in time"),
)


class CommandPipeline:
    """The circuit breaker's Pipeline, over one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection: Final = connection
        self._unsent: list[Command] = []
        self._waiting: Final[deque[Callable[[Answer], None]]] = deque()
        self._has_unsent: Final = asyncio.Event()
        self.ended: Final[asyncio.Future[str]] = asyncio.get_running_loop().create_future()
        self._tasks: Final = [
            asyncio.create_task(self._write()),
            asyncio.create_task(self._read()),
        ]

    def __len__(self) -> int:
        """Return the number of commands without a reply."""
        return len(self._waiting)

    def send(self, command: Command, done: Callable[[Answer], None]) -> None:
        """Send a command soon; call `done`, which must not raise, with the reply or the error."""
        if self.ended.done():
            done(StoreLostError(self.ended.result()))
            return
        self._unsent.append(command)
        self._waiting.append(done)
        self._has_unsent.set()

    def end(self, reason: str) -> None:
        """Stop using the connection; every waiting command gets a StoreLostError at once."""
        if self.ended.done():
            return
        self.ended.set_result(reason)
        while self._waiting:
            self._waiting.popleft()(StoreLostError(reason))

    async def close(self) -> None:
        """End, and close the connection."""
        self.end("closed")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await _disconnect(self._connection)

    async def _write(self) -> None:
        try:
            with _store_errors():
                while True:
                    await self._has_unsent.wait()
                    self._has_unsent.clear()
                    commands, self._unsent = self._unsent, []
                    packed = self._connection.pack_commands(commands)
                    await self._connection.send_packed_command(packed, check_health=False)
        except StoreLostError as error:
            self.end(str(error))

    async def _read(self) -> None:
        try:
            with _store_errors():
                while True:
                    answer = await self._connection.read_response(disable_decoding=True)
                    if not self._waiting:
                        self.end(UNKNOWN_FORM)
                        return
                    self._waiting.popleft()(answer)
        except StoreLostError as error:
            # A refused command ends it too: the same reason would refuse the next command.
            self.end(str(error))


async def open_pipeline(address: ValkeyAddress) -> CommandPipeline:
    """Connect and authenticate. Raises StoreLostError."""
    pool = await _pool(address)
    with _store_errors():
        async with asyncio.timeout(_CONNECT_SECONDS):
            connection = await pool.get_connection("genguard")  # type: ignore[no-untyped-call]
            return CommandPipeline(connection)


async def subscribe(
    address: ValkeyAddress,
    channel: bytes,
    on_open: Callable[[], None],
    on_message: Callable[[bytes], None],
) -> str:
    """Pass on every message of a channel until the connection fails; return why it failed."""
    try:
        pool = await _pool(address)
        with _store_errors():
            async with Valkey.from_pool(pool) as client, client.pubsub() as subscription:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    await subscription.connect()
                await subscription.subscribe(channel)
                while True:
                    # Not get_message(): it raises IndexError or TypeError for odd replies.
                    pushed = await subscription.parse_response()
                    kind, _, content = _of_form(pushed, _PushedMessage)
                    if kind == b"subscribe":
                        on_open()
                    elif kind == b"message" and isinstance(content, bytes):
                        on_message(content)
                    else:
                        return UNKNOWN_FORM
    except StoreLostError as error:
        return str(error)


class StreamEntry(NamedTuple):
    """One message of the stream, and its id there."""

    id: bytes
    raw: bytes


class StreamClient:
    """Reads the stream and single keys, one command after the other.

    Every method raises StoreLostError when there is no usable reply within five seconds.
    """

    def __init__(self, client: Valkey) -> None:
        self._client: Final = client

    async def read(self, key: bytes, after: bytes, *, wait: bool) -> list[StreamEntry]:
        """Return the next messages; with `wait`, wait up to a second for the first one."""
        block = ("BLOCK", _WAIT_MILLISECONDS) if wait else ()
        command = ("XREAD", "COUNT", MOST_AT_ONCE, *block, "STREAMS", key, after)
        found: _Streams = await self._run(command, _Streams)
        if found is None:
            return []
        ((_, entries),) = found
        return _entries(entries)

    async def last(self, key: bytes) -> bytes | None:
        """Return the id of the last message; None for an empty stream."""
        found = _entries(await self._run(("XREVRANGE", key, "+", "-", "COUNT", 1), _Entries))
        return found[0].id if found else None

    async def get(self, key: bytes) -> bytes | None:
        """Return the value of another key; None as well where it holds another type."""
        try:
            found: bytes | None = await self._run(("GET", key), bytes | None)
        except StoreLostError as error:
            if _is_wrong_type(error.__cause__):
                return None  # the next value replaces it
            raise
        return found

    async def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(ValkeyError, OSError):
            await self._client.aclose(close_connection_pool=True)

    async def _run(self, command: Command, form: Any) -> Any:
        with _store_errors():
            async with asyncio.timeout(_ANSWER_SECONDS):
                answer = await self._client.execute_command(*command)  # type: ignore[no-untyped-call]
        return _of_form(answer, form)


async def open_stream_client(address: ValkeyAddress) -> StreamClient:
    """Prepare a client; it connects at its first command. Raises StoreLostError."""
    pool = await _pool(address)
    # One connection: a pool replaces a lost one silently, but then messages may have been lost.
    client = Valkey(connection_pool=pool, single_connection_client=True)
    # The library's own readers of replies raise IndexError or TypeError for odd ones; _of_form
    # checks the raw reply instead.
    client.response_callbacks.clear()
    return StreamClient(client)


def _entries(entries: _Entries) -> list[StreamEntry]:
    try:
        for identity, _ in entries:
            order(identity)
    except ValueError as error:
        raise StoreLostError(UNKNOWN_FORM) from error
    return [StreamEntry(identity, fields[1]) for identity, fields in entries]


def _of_form(answer: Answer, form: Any) -> Any:
    """Return an answer that has this form. Raises StoreLostError for any other."""
    try:
        return msgspec.convert(answer, form)
    except msgspec.ValidationError as error:
        raise StoreLostError(UNKNOWN_FORM) from error


@contextmanager
def _store_errors() -> Iterator[None]:
    """Raise StoreLostError, with a reason in our own words, for every error of valkey-py."""
    try:
        yield
    except (ValkeyError, OSError) as error:
        raise StoreLostError(_reason_of(error)) from error
    except (ValueError, RecursionError) as error:
        # The library's parser: a length that is no number, arrays in arrays without end.
        raise StoreLostError(UNKNOWN_FORM) from error


def _reason_of(error: BaseException) -> str:
    """Return why something failed. The server's own text is left out: it may quote a command."""
    causes = (error, error.__cause__, error.__context__)
    if any(map(_is_wrong_type, causes)):
        return _WRONG_TYPE
    for kind, reason in _REASONS:
        if any(isinstance(one, kind) for one in causes):
            return reason
    return "not connected"


def _is_wrong_type(error: BaseException | None) -> bool:
    return isinstance(error, ResponseError) and "WRONGTYPE" in str(error)


class _TlsConnection(SSLConnection):
    """A TLS connection that trusts the given authority alone.

    The library's own would trust every authority of the system as well.
    """

    def __init__(self, context: ssl.SSLContext, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.ssl_context.context = context


async def _pool(address: ValkeyAddress) -> ConnectionPool:
    """Return a pool that has no connection yet. Raises StoreLostError.

    The password file is read each time, because the password may have been renewed.
    """
    try:
        password = address.password
        if address.password_file is not None:
            password = (await in_thread(address.password_file.read_text)).strip()
    except (OSError, UnicodeDecodeError):
        raise StoreLostError("the password-file cannot be read") from None
    arguments: dict[str, Any] = {
        "host": address.host,
        "port": address.port,
        "db": address.db,
        "username": address.user,
        "password": password,
        # With a timeout, the library sends by asyncio.wait_for. In Python 3.11 that swallows a
        # cancellation that comes at the moment the command is sent (python/cpython#86296).
        "socket_timeout": None,
        "socket_connect_timeout": _CONNECT_SECONDS,
        "lib_name": None,  # CLIENT SETINFO takes a right that a narrow ACL does not give
        "lib_version": None,
    }
    if address.tls:
        cafile = None if address.cafile is None else str(address.cafile)
        try:
            arguments["context"] = ssl.create_default_context(cafile=cafile)
        except OSError as error:
            raise StoreLostError("the cafile cannot be used") from error
        arguments["connection_class"] = _TlsConnection
    return ConnectionPool(**arguments)


async def _disconnect(connection: Connection) -> None:
    """Close a connection, whatever state it is in, without waiting for the server."""
    with contextlib.suppress(ValkeyError, OSError):
        await connection.disconnect(nowait=True)
