"""Reaches the ops port of an installed genguard through the API server: `kubectl port-forward`.

The ops port shows findings to connections from within the pod alone. A forwarded port is such a
connection; the API server's pod proxy is not, and it removes tokens. The user needs the right to
`list` pods in the namespace of genguard, and to `get` and `create` pods/portforward there. (A
WebSocket is a GET; Kubernetes 1.35 and newer ask for `create` as well, kubernetes
pkg/registry/core/pod/rest/subresources.go.)

Each connection is one WebSocket of the protocol v4.channel.k8s.io: channel 0 is the data, channel 1
an error in words; the first message of each is the port (cri-streaming portforward/websocket.go).
The near end is a socket in a folder that only this user may enter. TLS and browsers need a TCP port
of this host, which is reached by other users of the host, too, as a port of kubectl is.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import aiohttp

from webhook.cluster.rest import UNREACHED, RefusedError, Rest
from webhook.cluster.standby import OURS, read_pod

_PROTOCOL: Final = "v4.channel.k8s.io"
_DATA: Final = 0
_PORT_BYTES: Final = 2
_PIECE: Final = 1 << 16
_USUAL_PORT: Final = 8080
_LONGEST_REASON: Final = 300


class OpsPort(NamedTuple):
    """The ops port of one pod."""

    namespace: str
    pod: str
    port: int
    tls: bool

    def __str__(self) -> str:
        return f"pod {self.pod} in namespace {self.namespace}"


@dataclass(slots=True)
class Forward:
    """A forwarded port."""

    rest: Rest
    to: OpsPort
    """Where the next connections lead."""
    near: Path | int = 0
    """Each connection to it reaches the port: a Unix socket or, with TLS, a TCP port."""
    trouble: str = ""
    """Why the last connection failed, "" if it did not."""

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection until one of its sides ends it."""
        where = f"/api/v1/namespaces/{self.to.namespace}/pods/{self.to.pod}/portforward"
        try:
            far = await self.rest.websocket(where, _PROTOCOL, ports=str(self.to.port))
            sending = asyncio.create_task(self._send(reader, far))
            try:
                await self._receive(far, writer)  # until the far end, or the near one, ends it
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
                await far.close()
        except (RefusedError, *UNREACHED) as error:
            self.trouble = str(error) or type(error).__name__
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _send(
        self, reader: asyncio.StreamReader, far: aiohttp.ClientWebSocketResponse
    ) -> None:
        try:
            while piece := await reader.read(_PIECE):
                await far.send_bytes(bytes((_DATA,)) + piece)
        finally:
            await far.close()  # it ends _receive

    async def _receive(
        self, far: aiohttp.ClientWebSocketResponse, writer: asyncio.StreamWriter
    ) -> None:
        skipped: dict[int, int] = {}
        async for message in far:
            if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                continue
            channel, piece = message.data[0], message.data[1:]
            left = _PORT_BYTES - skipped.get(channel, 0)
            skipped[channel] = skipped.get(channel, 0) + min(left, len(piece))
            piece = piece[left:]
            if channel == _DATA:
                writer.write(piece)
                await writer.drain()
            elif piece:
                self.trouble = piece.decode(errors="replace")[:_LONGEST_REASON]


async def find_ops_port(rest: Rest, namespace: str) -> OpsPort | None:
    """Find a pod of genguard that is ready, the active one if one is; None where there is none.

    Raises as Rest does.
    """
    listed = await rest.list_all(f"/api/v1/namespaces/{namespace}/pods", OURS, kind="Pod")
    usable = [pod for pod in map(read_pod, listed) if pod.can_answer]
    if not usable:
        return None
    found = min(usable, key=lambda pod: (not pod.is_active, pod.name))
    port = found.ops or _USUAL_PORT
    (pod,) = (document for document in listed if document["metadata"]["name"] == found.name)
    containers = (pod.get("spec") or {}).get("containers") or ()
    tls = any("--ops-tls" in (container.get("args") or ()) for container in containers)
    return OpsPort(namespace, found.name, port, tls)


@asynccontextmanager
async def forwarded(rest: Rest, to: OpsPort, port: int | None = None) -> AsyncIterator[Forward]:
    """Forward the port while the context is entered. Raises OSError.

    port  of this host, for a browser; 0 is any free one, and None a socket for this user alone
    """
    with tempfile.TemporaryDirectory(prefix="genguard-") as folder:
        found = Forward(rest, to)
        carried: set[asyncio.Task[None]] = set()

        async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None  # noqa: S101 - asyncio runs this in a task
            carried.add(task)
            task.add_done_callback(carried.discard)
            with suppress(asyncio.CancelledError):  # by us, when the context ends
                await found.carry(reader, writer)

        if to.tls or port is not None:
            server = await asyncio.start_server(carry, "127.0.0.1", port or 0)
            found.near = server.sockets[0].getsockname()[1]
        else:
            found.near = Path(folder) / "ops"
            server = await asyncio.start_unix_server(carry, found.near)
        try:
            yield found
        finally:
            server.close()
            for task in tuple(carried):
                task.cancel()
            await asyncio.gather(*carried, return_exceptions=True)
