"""Connects to the Kubernetes API by kubeconfig; says who this server, and who a token is there.

A kubeconfig is checked before the Kubernetes client reads it: for a file that is not well formed
the client ends in a traceback of its own code, or in a message that repeats secrets.
"""

import asyncio
import base64
import json
import logging
import os
import secrets
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import aiohttp
import yaml
from kubernetes.aio import client, config
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config import ConfigException

from genguard.formats.documents import load_document
from webhook.cluster.rest import UNREACHED, RefusedError, Rest, ask
from webhook.telemetry.logs import LOGGER

IN_CLUSTER: Final = "in-cluster"
POD_NAME: Final = "GENGUARD_POD_NAME"
"""The environment variable with the name of the server's pod."""
_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_TOKEN: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
_TICK: Final = 0.01
_MOST_CLOSING_TICKS: Final = 200


class NoClusterError(Exception):
    """The kubeconfig cannot be used; the message says why."""


def check_kubeconfig(paths: str, context: str | None = None) -> Mapping[str, Any]:
    """Check the files of a `--kubeconfig` or $KUBECONFIG, and return the context that is meant.

    paths    separated as in $PATH; as for kubectl, one of several may be missing
    context  its name; without it the current one. It must be there, and so must its cluster.

    Raises NoClusterError; values are not shown, since they may be secrets.
    """
    files = [path for path in paths.split(os.pathsep) if path and Path(path).exists()]
    at = paths
    contexts: dict[str, Any] = {}
    clusters: dict[str, Any] = {}
    try:
        for at in files:
            document = load_document(Path(at).read_bytes())
            context = context or document.get("current-context")
            # The first file counts where several have the same name.
            contexts = {
                context["name"]: context["context"] for context in document["contexts"]
            } | contexts
            clusters = {
                cluster["name"]: cluster["cluster"] for cluster in document["clusters"]
            } | clusters
        at = paths
        reason = _wrong(contexts, clusters, context) if files else "no such file"
    except OSError as error:
        reason = str(error.strerror)
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        reason = f"{line}{error.problem}"
    except (yaml.YAMLError, ValueError, RecursionError):
        reason = "no text in YAML, or nested too deep"
    except (AttributeError, KeyError, TypeError):
        reason = "no kubeconfig: expected `clusters` and `contexts` with their names"
    if reason:
        raise NoClusterError(f"--kubeconfig {at}: {reason}")
    found: Mapping[str, Any] = contexts[str(context)]
    return found


def _wrong(contexts: Mapping[str, Any], clusters: Mapping[str, Any], name: str | None) -> str:
    """Say what is wrong with a context, or with the cluster that it names; "" for nothing."""
    if name is None or name not in contexts:
        near = get_close_matches(name or "", contexts, n=1)
        meant = f"did you mean {near[0]}?" if near else f"one of {', '.join(sorted(contexts))}"
        return f"no context {name}; {meant}" if name else f"no current-context: --context, {meant}"
    cluster = contexts[name].get("cluster")
    if cluster not in clusters:
        return f"context {name} names cluster {cluster}, which is not there"
    if not clusters[cluster]["server"].startswith(("https://", "http://")):
        return f"`server` of cluster {cluster} must begin with https://"
    return ""


class NamedClient(client.ApiClient):
    """Knows what the kubeconfig calls its cluster; "" in a pod."""

    cluster = ""


@asynccontextmanager
async def connected(kubeconfig: str, context: str | None = None) -> AsyncIterator[NamedClient]:
    """Yield a client for a kubeconfig file, or for the pod's own cluster ("in-cluster").

    context  one of the file's; without it the file's current one
    Raises NoClusterError. The first call connects. No socket is left open at the end.
    """
    settings, name = client.Configuration(), ""
    try:
        if kubeconfig == IN_CLUSTER:
            config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
        else:
            name = check_kubeconfig(kubeconfig, context)["cluster"]
            await _load(kubeconfig, context, settings)
        api = NamedClient(configuration=settings)
        api.cluster = name
        api.rest_client = calls = _Calls(settings)
    except ssl.SSLError as error:
        told = "its certificates or its key cannot be used: they are no PEM, or do not fit"
        raise NoClusterError(f"--kubeconfig {kubeconfig}: {told}") from error
    except (ConfigException, OSError, ValueError) as error:
        raise NoClusterError(f"--kubeconfig {kubeconfig}: {error}") from error
    except (AttributeError, KeyError, TypeError) as error:
        raise NoClusterError(f"--kubeconfig {kubeconfig}: its user cannot be read") from error
    try:
        async with api:
            yield api
    finally:
        await calls.wait_closed()


class _Calls(RESTClientObject):
    """Knows its sockets: a cancelled call still closes its TLS after close() has returned."""

    def __init__(self, settings: client.Configuration) -> None:
        super().__init__(settings)
        self._sockets: Final[list[socket.socket]] = []

    def _create_connector(self) -> aiohttp.TCPConnector:
        """Return a connector with this factory; the client's documented way to override it."""
        # Without a limit: each watch holds a connection for minutes, and calls would wait for it.
        return aiohttp.TCPConnector(limit=0, ssl=self.ssl_context, socket_factory=self._socket)

    def _socket(self, address: tuple[Any, ...]) -> socket.socket:
        self._sockets[:] = [opened for opened in self._sockets if opened.fileno() >= 0]
        self._sockets.append(socket.socket(*address[:3]))
        return self._sockets[-1]

    async def wait_closed(self) -> None:
        """Wait until every socket is closed, for two seconds at most."""
        for _ in range(_MOST_CLOSING_TICKS):
            if all(opened.fileno() < 0 for opened in self._sockets):
                return
            await asyncio.sleep(_TICK)


async def _load(kubeconfig: str, context: str | None, settings: client.Configuration) -> None:
    """Load a kubeconfig; raises ConfigException where its exec plugin gives no credentials.

    The client only logs that, and would then ask without credentials.
    """
    failures: list[str] = []

    def collect(record: logging.LogRecord) -> bool:
        if record.levelno >= logging.ERROR:
            failures.append(record.getMessage())
        return record.levelno < logging.ERROR

    log = logging.getLogger(config.kube_config.__name__)
    log.addFilter(collect)
    try:
        await config.load_kube_config(  # type: ignore[no-untyped-call]
            config_file=kubeconfig, context=context, client_configuration=settings
        )
    finally:
        log.removeFilter(collect)
    if failures:
        raise ConfigException(f"its exec plugin fails, log in again: {failures[0]}")


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
        return str(check_kubeconfig(kubeconfig, context).get("namespace") or "default")
    except (NoClusterError, OSError):
        return "default"


def server_identity() -> str:
    """Return the pod's name, and what makes it unique to this process, even after a restart.

    The manifests say the name; elsewhere it is the host's.
    """
    return f"{os.environ.get(POD_NAME) or socket.gethostname()}_{secrets.token_hex(8)}"


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


async def review_token(rest: Rest, token: str, verb: str, path: str) -> tuple[str, bool] | None:
    """Return the user of a token, "" for an invalid one, and whether access is allowed.

    None when the API server cannot be asked: it takes the right to create both reviews, which the
    ClusterRole system:auth-delegator grants.

    Source: k8s.io/api authentication/v1/types.go:TokenReview, authorization/v1/types.go:
    SubjectAccessReview
    """
    try:
        found = await ask(rest, "TokenReview", {"token": token})
        if found.get("authenticated") is not True:
            return "", False
        user = {key: found["user"].get(key) for key in ("uid", "groups", "extra")}
        name = str(found["user"]["username"])
        spec = {**user, "user": name, "nonResourceAttributes": {"path": path, "verb": verb}}
        access = await ask(rest, "SubjectAccessReview", spec)
    except (RefusedError, AttributeError, KeyError, *UNREACHED) as error:
        # Not the error's text: an API server may repeat in it what it was sent.
        status = error.status if isinstance(error, RefusedError) else None
        fields = {"reason": type(error).__name__, "status": status}
        LOGGER.warning("token not reviewed", extra={"fields": fields})
        return None
    return name, access.get("allowed") is True
