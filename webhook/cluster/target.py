"""Finds the object that a person means, what may act on it, and where the API server is."""

import os
from dataclasses import replace
from http import HTTPStatus
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from kubernetes.aio import config
from kubernetes.aio.config import ConfigException

from webhook.cluster.connection import IN_CLUSTER, NoClusterError
from webhook.cluster.discovery import discover
from webhook.cluster.rest import RefusedError, Rest
from webhook.objects.served import find, split_target
from webhook.trace.plan import Traced

CONFIGURATIONS: Final = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_NEEDED: Final = ("list", "create", "delete")
_SLICE: Final = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes"
"""The addresses that API servers advertise; each keeps its own there (controlplane/instance.go)."""


class NoTargetError(Exception):
    """There is no such object, or it may not be traced; the message says why."""


def default_kubeconfig() -> str:
    """What kubectl would use: $KUBECONFIG, ~/.kube/config, the pod's own account."""
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
    """The namespace of a context of the kubeconfig, the current one by default, or of the pod."""
    try:
        if kubeconfig == IN_CLUSTER:
            return _ACCOUNT.read_text().strip() or "default"
        every, active = config.list_kube_config_contexts(kubeconfig)  # type: ignore[no-untyped-call]
    except (ConfigException, OSError, ValueError):
        return "default"
    meant = next((one for one in every if one["name"] == context), active)
    return str(meant["context"].get("namespace") or "default")


async def resolve(rest: Rest, text: str, namespace: str) -> Traced:
    """The object of KIND/NAME. Raises UnknownTargetError, NoTargetError, RefusedError."""
    kind, name = split_target(text)
    one = find(kind, await discover(rest))
    namespace = namespace if one.namespaced else ""
    traced = Traced(
        group=one.group,
        version=one.version,
        resource=one.resource,
        kind=one.kind,
        namespace=namespace,
        name=name,
        uid="",
        has_status=one.has_status,
    )
    try:
        found = await rest.get(traced.path())
    except RefusedError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        raise NoTargetError(f"there is no {traced}") from error
    return replace(traced, uid=found["metadata"]["uid"])


async def advertised_url(rest: Rest, url: str) -> str:
    """The API server's URL as pods dial it, where `url` is of this machine's loopback address.

    kind, minikube and tunnels forward a local port to an API server that runs in a container or
    elsewhere: it cannot reach this machine's loopback address. The given URL where nothing better
    is known.
    """
    host = urlsplit(url).hostname or ""
    try:
        if host != "localhost" and not ip_address(host).is_loopback:
            return url
        found = await rest.get(_SLICE)
        address = ip_address(found["endpoints"][0]["addresses"][0])
        port = int(found["ports"][0]["port"])
    except (RefusedError, LookupError, TypeError, ValueError):
        return url
    return f"https://[{address}]:{port}" if address.version == 6 else f"https://{address}:{port}"  # noqa: PLR2004


async def configurations(rest: Rest) -> list[dict[str, Any]]:
    """Every MutatingWebhookConfiguration; a list's items come without their kind."""
    listed = await rest.get(CONFIGURATIONS)
    return [{**one, "kind": "MutatingWebhookConfiguration"} for one in listed["items"]]


async def check_rights(rest: Rest) -> None:
    """Raise NoTargetError unless all that a trace does with registrations is allowed.

    Asked before the first is made: who may create but not delete would leave them behind.
    """
    missing = [verb for verb in _NEEDED if not await _may(rest, verb)]
    if missing:
        raise NoTargetError(
            f"you may not {' or '.join(missing)} mutatingwebhookconfigurations"
            ".admissionregistration.k8s.io; a trace must list, create and delete them"
        )


async def _may(rest: Rest, verb: str) -> bool:
    attributes = {
        "verb": verb,
        "group": "admissionregistration.k8s.io",
        "resource": "mutatingwebhookconfigurations",
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    answer = await rest.call("POST", _REVIEWS, review)
    return bool(answer["status"].get("allowed"))
