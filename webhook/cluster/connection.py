"""A connection to the Kubernetes API, by kubeconfig, that leaves nothing open when it is over."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp
from kubernetes.aio import client, config
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config import ConfigException

IN_CLUSTER: Final = "in-cluster"
_TICK: Final = 0.01
_LONGEST_FAREWELL: Final = 200
"""Ticks: 2 s."""


class NoClusterError(Exception):
    """The kubeconfig cannot be used; the message says why."""


@asynccontextmanager
async def connected(kubeconfig: str, context: str | None = None) -> AsyncIterator[client.ApiClient]:
    """A client for a kubeconfig file, or for the pod's own cluster: "in-cluster".

    context  one of the file's; without it the file's current one
    Raises NoClusterError. The connection itself is made by the first call.
    """
    settings = client.Configuration()
    try:
        if kubeconfig == IN_CLUSTER:
            config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
        else:
            await config.load_kube_config(  # type: ignore[no-untyped-call]
                config_file=kubeconfig, context=context, client_configuration=settings
            )
    except (ConfigException, OSError, ValueError) as error:
        raise NoClusterError(f"--kubeconfig {kubeconfig}: {error}") from error
    api = client.ApiClient(configuration=settings)
    api.rest_client = calls = _Calls(settings)
    try:
        yield api
    finally:
        await api.close()  # type: ignore[no-untyped-call]
        await calls.gone()


class _Calls(RESTClientObject):
    """Knows its sockets: a watch that was cancelled says farewell in TLS after close() returns."""

    def __init__(self, settings: client.Configuration) -> None:
        super().__init__(settings)
        self._sockets: Final[list[socket.socket]] = []

    def _create_connector(self) -> aiohttp.TCPConnector:
        """What the client of Kubernetes asks to be overridden."""
        return aiohttp.TCPConnector(
            limit=self.maxsize, ssl=self.ssl_context, socket_factory=self._socket
        )

    def _socket(self, address: tuple[Any, ...]) -> socket.socket:
        self._sockets[:] = [one for one in self._sockets if one.fileno() >= 0]
        family, kind, protocol = address[:3]
        made = socket.socket(family, kind, protocol)
        self._sockets.append(made)
        return made

    async def gone(self) -> None:
        """Wait until every socket is closed, but not for a server that does not answer."""
        for _ in range(_LONGEST_FAREWELL):
            if all(one.fileno() < 0 for one in self._sockets):
                return
            await asyncio.sleep(_TICK)
