"""A line to a Valkey or Redis server: many commands on their way at once, answers in order.

The client library connects, speaks TLS, authenticates, packs and parses. What its own client does
beyond that, one command and one wait at a time on a connection of a pool, costs more than judging
a review; here commands of one turn of the event loop are written together.
"""

import asyncio
import contextlib
import ssl
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import msgspec
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
from webhook.store.circuit import Answer, LostError
from webhook.store.scripts import Command
from webhook.threads import in_thread

UNKNOWN_FORM: Final = "the store gave an answer of no known form"
_CONNECT_SECONDS: Final = 1.0
_Push = tuple[bytes, bytes, bytes | int]
"""What is said to who has subscribed: a kind, a channel, and a message or a number of channels."""
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


def reason_of(error: BaseException) -> str:
    """Why something failed. The server's own text may quote what it was sent."""
    causes = (error, error.__cause__, error.__context__)
    for kind, reason in _REASONS:
        if any(isinstance(one, kind) for one in causes):
            return reason
    return "not connected"


class ValkeyLine:
    """A circuit's Line over one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection: Final = connection
        self._unsent: list[Command] = []
        self._awaited: Final[deque[Callable[[Answer], None]]] = deque()
        self._wake: Final = asyncio.Event()
        self.ended: Final[asyncio.Future[str]] = asyncio.get_running_loop().create_future()
        self._tasks: Final = [
            asyncio.create_task(self._write()),
            asyncio.create_task(self._read()),
        ]

    def __len__(self) -> int:
        """How many commands have no answer yet."""
        return len(self._awaited)

    def send(self, command: Command, done: Callable[[Answer], None]) -> None:
        """Send a command soon; `done` gets its answer, or a LostError. It must not raise."""
        if self.ended.done():
            done(LostError(self.ended.result()))
            return
        self._unsent.append(command)
        self._awaited.append(done)
        self._wake.set()

    def end(self, reason: str) -> None:
        """Give up: who waits for an answer gets a LostError at once."""
        if self.ended.done():
            return
        self.ended.set_result(reason)
        while self._awaited:
            self._awaited.popleft()(LostError(reason))

    async def close(self) -> None:
        """End, and close the connection."""
        self.end("closed")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await disconnect(self._connection)

    async def _write(self) -> None:
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                commands, self._unsent = self._unsent, []
                packed = self._connection.pack_commands(commands)
                await self._connection.send_packed_command(packed, check_health=False)
        except (ValkeyError, OSError) as error:
            self.end(reason_of(error))

    async def _read(self) -> None:
        try:
            while True:
                answer = await next_answer(self._connection)
                if not self._awaited:
                    self.end(UNKNOWN_FORM)
                    return
                self._awaited.popleft()(answer)
        except LostError as error:
            # What a command was refused for, the next one is refused for too.
            self.end(str(error))


async def open_line(address: ValkeyAddress) -> ValkeyLine:
    """Connect and authenticate. Raises LostError."""
    return ValkeyLine(await connected(address))


async def listen(
    address: ValkeyAddress,
    channel: bytes,
    on_open: Callable[[], None],
    on_message: Callable[[bytes], None],
) -> str:
    """Hand on every message of a channel until the connection fails; why it did."""
    try:
        connection = await connected(address)
    except LostError as error:
        return str(error)
    try:
        await connection.send_command("SUBSCRIBE", channel, check_health=False)
        while True:
            kind, _, content = shaped(await next_answer(connection), _Push)
            if kind == b"subscribe":
                on_open()
            elif kind == b"message" and isinstance(content, bytes):
                on_message(content)
            else:
                return UNKNOWN_FORM
    except (ValkeyError, OSError) as error:
        return reason_of(error)
    except LostError as error:
        return str(error)
    finally:
        await disconnect(connection)


async def next_answer(connection: Connection) -> Answer:
    """The next thing that the store says. Raises LostError."""
    try:
        return await connection.read_response(disable_decoding=True)
    except (ValkeyError, OSError) as error:
        raise LostError(reason_of(error)) from error
    except (ValueError, RecursionError) as error:
        # The library's parser: a length that is no number, arrays in arrays without end.
        raise LostError(UNKNOWN_FORM) from error


def shaped(answer: Answer, form: Any) -> Any:
    """An answer of this form. Raises LostError for any other."""
    try:
        return msgspec.convert(answer, form)
    except msgspec.ValidationError as error:
        raise LostError(UNKNOWN_FORM) from error


async def connected(address: ValkeyAddress) -> Connection:
    """A connection that is authenticated. Raises LostError."""
    try:
        password = address.password
        if address.password_file is not None:  # each time anew: it may have been renewed
            password = (await in_thread(address.password_file.read_text)).strip()
    except (OSError, UnicodeDecodeError):
        raise LostError("the password-file cannot be read") from None
    try:
        connection = _connection(address, password)
    except OSError as error:
        raise LostError("the cafile cannot be used") from error
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            await connection.connect()  # type: ignore[no-untyped-call]
    except (ValkeyError, OSError) as error:
        await disconnect(connection)
        raise LostError(reason_of(error)) from error
    except (ValueError, RecursionError) as error:  # see next_answer
        await disconnect(connection)
        raise LostError(UNKNOWN_FORM) from error
    return connection


def _connection(address: ValkeyAddress, password: str | None) -> Connection:
    arguments: dict[str, Any] = {
        "host": address.host,
        "port": address.port,
        "db": address.db,
        "username": address.user,
        "password": password,
        "socket_timeout": None,
        "socket_connect_timeout": _CONNECT_SECONDS,
        "lib_name": None,  # to tell it takes a right that a narrow ACL does not give
        "lib_version": None,
    }
    if not address.tls:
        return Connection(**arguments)
    connection = SSLConnection(**arguments)
    cafile = None if address.cafile is None else str(address.cafile)
    # The library's own would trust every authority of the system besides the given one.
    connection.ssl_context.context = ssl.create_default_context(cafile=cafile)
    return connection


async def disconnect(connection: Connection) -> None:
    """Close a connection, whatever state it is in."""
    with contextlib.suppress(ValkeyError, OSError):
        await connection.disconnect(nowait=True)
