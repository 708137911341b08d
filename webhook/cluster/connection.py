"""Connects to the Kubernetes API by kubeconfig, and says who this server is in the cluster."""

import asyncio
import base64
import json
import logging
import os
import secrets
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import aiohttp
from kubernetes.aio import client, config
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config import ConfigException

from webhook.cluster.kubeconfig import NoClusterError, check_kubeconfig
from webhook.cluster.rest import RefusedError

IN_CLUSTER: Final = "in-cluster"
POD_NAME: Final = "GENGUARD_POD_NAME"
"""The environment variable with the name of the server's pod."""
_TICK: Final = 0.01
_MOST_CLOSING_TICKS: Final = 200
"""Ticks, 2 s together."""
_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_TOKEN: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")


@asynccontextmanager
async def connected(kubeconfig: str, context: str | None = None) -> AsyncIterator[client.ApiClient]:
    """Yield a client for a kubeconfig file, or for the pod's own cluster ("in-cluster").

    context  one of the file's; without it the file's current one
    Raises NoClusterError. The first call connects. No socket is left open at the end.
    """
    settings = client.Configuration()
    try:
        if kubeconfig == IN_CLUSTER:
            config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
        else:
            check_kubeconfig(kubeconfig, context)
            await _load(kubeconfig, context, settings)
        api = client.ApiClient(configuration=settings)
        api.rest_client = calls = _Calls(settings)
    except ssl.SSLError as error:
        told = "its certificates or its key cannot be used: they are no PEM, or do not fit"
        raise NoClusterError(f"--kubeconfig {kubeconfig}: {told}") from error
    except (ConfigException, OSError, ValueError) as error:
        raise NoClusterError(f"--kubeconfig {kubeconfig}: {error}") from error
    try:
        yield api
    except RefusedError as error:
        if error.status == HTTPStatus.UNAUTHORIZED and (told := _expired(settings)):
            raise NoClusterError(f"--kubeconfig {kubeconfig}: {told}") from error
        raise
    finally:
        await api.close()  # type: ignore[no-untyped-call]
        await calls.wait_closed()


async def _load(kubeconfig: str, context: str | None, settings: client.Configuration) -> None:
    """Load a kubeconfig; raises ConfigException where its exec plugin gives no credentials.

    The client only logs that, and would then ask without credentials.
    """
    failures = _Collected()
    log = logging.getLogger(config.kube_config.__name__)
    log.addFilter(failures)
    try:
        await config.load_kube_config(  # type: ignore[no-untyped-call]
            config_file=kubeconfig, context=context, client_configuration=settings
        )
    finally:
        log.removeFilter(failures)
    if failures.messages:
        raise ConfigException(f"its exec plugin fails, log in again: {failures.messages[0]}")


class _Collected(logging.Filter):
    """Takes the errors that a logger is given, so that they are told once."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: Final[list[str]] = []

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep the text of an error, and let other records pass."""
        if record.levelno < logging.ERROR:
            return True
        self.messages.append(record.getMessage())
        return False


def _expired(settings: client.Configuration) -> str:
    """Say since when the client certificate has expired; "" if it has not, or there is none."""
    if not settings.cert_file:
        return ""
    # Imported when wanted: only a refusal asks, and x509 loads as long as a connection takes.
    from cryptography import x509  # noqa: PLC0415

    try:
        found = x509.load_pem_x509_certificate(Path(settings.cert_file).read_bytes())
    except (OSError, ValueError):
        return ""
    end = found.not_valid_after_utc
    if end > datetime.now(UTC):
        return ""
    return f"its client certificate expired at {end:%FT%TZ}; log in again"


class _Calls(RESTClientObject):
    """Remembers its sockets: a cancelled watch still closes its TLS after close() has returned."""

    def __init__(self, settings: client.Configuration) -> None:
        super().__init__(settings)
        self._sockets: Final[list[socket.socket]] = []

    def _create_connector(self) -> aiohttp.TCPConnector:
        """Return a connector that remembers sockets; the client's documented way to override it."""
        return aiohttp.TCPConnector(
            limit=self.maxsize, ssl=self.ssl_context, socket_factory=self._socket
        )

    def _socket(self, address: tuple[Any, ...]) -> socket.socket:
        self._sockets[:] = [one for one in self._sockets if one.fileno() >= 0]
        family, kind, protocol = address[:3]
        made = socket.socket(family, kind, protocol)
        self._sockets.append(made)
        return made

    async def wait_closed(self) -> None:
        """Wait until every socket is closed, for two seconds at most."""
        for _ in range(_MOST_CLOSING_TICKS):
            if all(one.fileno() < 0 for one in self._sockets):
                return
            await asyncio.sleep(_TICK)


def default_kubeconfig() -> str:
    """Return what kubectl would use: $KUBECONFIG, ~/.kube/config, or the pod's own account."""
    given = os.environ.get("KUBECONFIG")
    if given:
        return given
    usual = Path.home() / ".kube" / "config"
    if usual.exists():
        return str(usual)
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return IN_CLUSTER
    raise NoClusterError(f"no cluster: set $KUBECONFIG, or give --kubeconfig; {usual} is not there")


def default_namespace(kubeconfig: str, context: str | None = None) -> str:
    """Return the namespace of a context, by default the current, or of the pod."""
    try:
        if kubeconfig == IN_CLUSTER:
            return _ACCOUNT.read_text().strip() or "default"
        check_kubeconfig(kubeconfig)
        every, active = config.list_kube_config_contexts(kubeconfig)  # type: ignore[no-untyped-call]
    except (NoClusterError, ConfigException, OSError, ValueError):
        return "default"
    meant = next((one for one in every if one["name"] == context), active)
    return str(meant["context"].get("namespace") or "default")


def server_object(kubeconfig: str) -> dict[str, str]:
    """Return the object that Events about this server refer to.

    In a pod it is the Pod; elsewhere the kubeconfig's namespace.
    """
    namespace = default_namespace(kubeconfig)
    kind, name = "Namespace", namespace
    if kubeconfig == IN_CLUSTER:
        kind, name = "Pod", pod_name()
    return {"apiVersion": "v1", "kind": kind, "namespace": namespace, "name": name}


def pod_name() -> str:
    """Return the name of the server's pod: as the manifests say it, otherwise the host's."""
    return os.environ.get(POD_NAME) or socket.gethostname()


def server_identity() -> str:
    """Return an identity that is unique to this process, even after a restart in the same pod."""
    return f"{pod_name()}_{secrets.token_hex(8)}"


def server_user(kubeconfig: str) -> str:
    """Return the user name of this server's own writes, as in reviews.

    In a pod it is the subject of the token. Elsewhere it is assumed to be the ServiceAccount that
    `genguard install` creates, in the kubeconfig's namespace.
    """
    if kubeconfig == IN_CLUSTER and (subject := _subject(_TOKEN)):
        return subject
    return f"system:serviceaccount:{default_namespace(kubeconfig)}:genguard"


def _subject(token: Path) -> str:
    """Return the subject of a JSON Web Token, unchecked; "" where the file holds none."""
    try:
        _, claims, _ = token.read_text().split(".")
        subject = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["sub"]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return subject if isinstance(subject, str) else ""
