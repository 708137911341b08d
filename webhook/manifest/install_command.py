"""The command that installs a genguard again as it is, read from its objects in a cluster."""

import shlex
from collections.abc import Iterable, Iterator, Mapping

from webhook.manifest.documents import (
    AUDIT_ONLY,
    FOLLOW,
    HEAL,
    NAMESPACE,
    STANDBY,
    Document,
    alertmanagers_of,
    arguments_of,
    containers_of,
    path_of,
)
from webhook.manifest.rendering import callers_of, store_of

Live = Mapping[str, Document | None]
"""The objects that exist, by path; None where one is missing."""


def install_command(
    namespace: str,
    expected: Iterable[Document],
    live: Live,
    *,
    is_injected: bool,
    enforces: bool = False,
) -> str:
    """Return `genguard install` with the flags that make the same objects again.

    expected     what `install` would apply
    is_injected  whether cert-manager writes the CA bundles
    enforces     whether --audit-only is left out
    """
    expected = tuple(expected)
    flags = [] if namespace == NAMESPACE else ["-n", namespace]
    if is_injected:
        flags.append("--cert-manager")
    deployment = deployment_of(live)
    if deployment is not None:
        flags += _shared(deployment, expected)
        arguments = arguments_of(deployment)
        if AUDIT_ONLY in arguments:
            flags += [] if enforces else [AUDIT_ONLY]
        elif HEAL not in arguments:
            flags.append("--no-heal")
        if FOLLOW not in arguments:
            flags += ["--registrations", "fixed"]
        for url in alertmanagers_of(deployment):
            flags += ["--alertmanager", shlex.quote(url)]
    callers = [cidr for one in live.values() if one for cidr in callers_of(one)]
    if callers:
        flags += ["--api-server-cidr", ",".join(callers)]
    flags += _images(expected, live)
    return " ".join(("genguard install", *flags))


def deployment_of(live: Live) -> Document | None:
    """Return the Deployment of the server, None without one."""
    return next((one for one in live.values() if one and one["kind"] == "Deployment"), None)


def default_replicas(expected: Iterable[Document]) -> int:
    """Return how many pods `install` would make."""
    return next((one["spec"]["replicas"] for one in expected if one["kind"] == "Deployment"), 1)


def _shared(deployment: Document, expected: Iterable[Document]) -> Iterator[str]:
    """The flags for replicas, and for their shared store if they have one."""
    address, replicas = store_of(deployment), deployment["spec"].get("replicas", 1)
    if address:
        yield "--ha"
        if not any(one["kind"] == "StatefulSet" for one in expected):
            yield from ("--store", shlex.quote(address))
    elif STANDBY not in arguments_of(deployment):
        return  # several that answer, without a store, are an error: do not install them again
    # Zero replicas are an error, too.
    if replicas not in (0, default_replicas(expected)):
        yield from ("--replicas", str(replicas))


def _images(expected: Iterable[Document], live: Live) -> Iterator[str]:
    """The flags for images that differ from the manifests."""
    flags = {"Deployment": "--image", "StatefulSet": "--store-image"}
    for wanted in expected:
        flag, found = flags.get(wanted["kind"]), live.get(path_of(wanted))
        if flag and found:
            images = {one["image"] for one in containers_of(wanted)}
            for container in containers_of(found):
                if container.get("image") not in {None, *images}:
                    yield from (flag, shlex.quote(str(container["image"])))
