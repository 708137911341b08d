"""What was found in a cluster: the only thing that checks read."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from certs import PairSnapshot
from webhook.admission.probe import Seen
from webhook.install.registering import is_limited
from webhook.install.where import path_of
from webhook.lint.hook import Hook, mapping, read_hooks
from webhook.manifest.deployed import (
    AUDIT_ONLY,
    HEAL,
    alertmanagers_of,
    arguments_of,
    containers_of,
)
from webhook.manifest.kustomize import Document
from webhook.manifest.network import callers_of
from webhook.manifest.rendering import INJECTED, NAMESPACE, PHASES, is_registration, phase_of
from webhook.manifest.store import store_of

Path = str


class Right(NamedTuple):
    """Something that the server asks of the API server."""

    verb: str
    group: str
    resource: str
    allowed: bool
    name: str = ""

    def __str__(self) -> str:
        resource = f"{self.resource}.{self.group}".rstrip(".")
        return f"{self.verb} {resource}{f'/{self.name}' if self.name else ''}"


class Found(NamedTuple):
    """One webhook of genguard's: as it is, and as it would be installed."""

    phase: str
    registration: Document
    hook: Hook
    expected: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Facts:
    """One look at a cluster.

    expected        what `install` would apply, the registrations among it
    live            the same objects by path as they are; None where there is none
    configurations  every webhook configuration there is
    endpoints       ready addresses of the Service
    pair            what the Secret holds; for a server outside, what it serves, without a key
    probe           which phases have seen a dry run, and what they said; refusal: what refused it
    probes          the same of several dry runs that were sent at once
    leaving         pods that are about to end: being deleted, or of an earlier template
    skew            seconds that this machine's clock is ahead of the API server's
    served          group, version and resource of all that the API server serves
    custom          group and resource of custom resources with something to watch
    unread          what could not be looked at, and why
    """

    at: datetime
    namespace: str
    version: str
    expected: tuple[Document, ...]
    live: Mapping[Path, Document | None]
    configurations: tuple[Document, ...]
    leftovers: tuple[Document, ...] = ()
    endpoints: int = 0
    pair: PairSnapshot | None = field(default=None, repr=False)
    probe: Mapping[str, Seen] = field(default_factory=dict)
    refusal: str = ""
    probes: tuple[Mapping[str, Seen], ...] = ()
    leaving: tuple[str, ...] = ()
    skew: float = 0.0
    rights: tuple[Right, ...] = ()
    served: frozenset[tuple[str, str, str]] = frozenset()
    custom: tuple[tuple[str, str], ...] = ()
    unread: Mapping[str, str] = field(default_factory=dict)

    @property
    def outside(self) -> str:
        """https://HOST:PORT of a server outside the cluster; "" where it is inside."""
        for found in self.registered.values():
            url = str(mapping(found.hook.body.get("clientConfig")).get("url", ""))
            if url:
                return url.removesuffix(f"/{found.phase}")
        return ""

    @property
    def registered(self) -> dict[str, Found]:
        """Of the three registrations those that are there."""
        return {found.phase: found for found in self._registered()}

    @property
    def is_partial(self) -> bool:
        """Some registration is there for a trial namespace alone."""
        return any(is_limited(found.registration) for found in self.registered.values())

    @property
    def deployment(self) -> Document | None:
        """As it is."""
        return next(
            (one for one in self.live.values() if one and one["kind"] == "Deployment"), None
        )

    @property
    def install(self) -> str:
        """The command that installs it as it is installed now."""
        if self.outside:
            return f"genguard install --url {shlex.quote(self.outside)} --ca-file ca.crt"
        flags = [] if self.namespace == NAMESPACE else ["-n", self.namespace]
        if any(INJECTED in found.hook.annotations for found in self.registered.values()):
            flags.append("--cert-manager")
        flags += self._shared()
        if self.deployment is not None:
            arguments = arguments_of(self.deployment)
            if AUDIT_ONLY in arguments:
                flags.append(AUDIT_ONLY)
            elif HEAL not in arguments:
                flags.append("--no-heal")
            for url in alertmanagers_of(self.deployment):
                flags += ["--alertmanager", shlex.quote(url)]
        callers = [cidr for one in self.live.values() if one for cidr in callers_of(one)]
        if callers:
            flags += ["--api-server-cidr", ",".join(callers)]
        flags += self._images()
        return " ".join(("genguard install", *flags))

    def logs(self, word: str) -> str:
        """The command that shows what the server says of something."""
        if self.outside:
            return "genguard serve --log-level DEBUG"
        return f"kubectl -n {self.namespace} logs deployment/genguard | grep {word}"

    @property
    def replicas(self) -> int:
        """How many pods are installed where nobody asks for another number."""
        return next(
            (one["spec"]["replicas"] for one in self.expected if one["kind"] == "Deployment"), 1
        )

    def _shared(self) -> Iterator[str]:
        """How many pods there are, and by which store they judge as one."""
        if self.deployment is None:
            return
        address, replicas = store_of(self.deployment), self.deployment["spec"].get("replicas", 1)
        if not address:
            return  # more than one replica without a store is a fault, and not installed again
        yield "--ha"
        if not any(one["kind"] == "StatefulSet" for one in self.expected):
            yield from ("--store", shlex.quote(address))
        # None is a fault as well.
        if replicas not in (0, self.replicas):
            yield from ("--replicas", str(replicas))

    def _images(self) -> Iterator[str]:
        """Those that are not of the manifests."""
        flags = {"Deployment": "--image", "StatefulSet": "--store-image"}
        for expected in self.expected:
            flag, live = flags.get(expected["kind"]), self.live.get(path_of(expected))
            if flag and live:
                wanted = {one["image"] for one in containers_of(expected)}
                for container in containers_of(live):
                    if container.get("image") not in {None, *wanted}:
                        yield from (flag, shlex.quote(str(container["image"])))

    def _registered(self) -> Iterator[Found]:
        names = {one["metadata"]["name"]: one for one in self.configurations}
        for wanted in self.expected:
            if not is_registration(wanted):
                continue
            found = names.get(wanted["metadata"]["name"], {})
            (expected,) = wanted["webhooks"]
            for hook in read_hooks([found]):
                if hook.body.get("name") == expected["name"] and phase_of(expected) in PHASES:
                    yield Found(phase_of(expected), found, hook, expected)
