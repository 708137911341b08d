"""What was found in a cluster: the only thing that checks read."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from certs import PairSnapshot
from webhook.admission.probe import Seen
from webhook.install.registering import is_limited
from webhook.lint.hook import Hook, items, mapping, read_hooks, texts
from webhook.manifest.kustomize import Document
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
        spec = mapping(mapping((self.deployment or {}).get("spec")).get("template")).get("spec")
        for container in map(mapping, items(mapping(spec).get("containers"))):
            arguments = texts(container.get("args"))
            if "--audit-only" in arguments:
                flags.append("--audit-only")
            if container.get("image") not in (None, self._image()):
                flags += ["--image", shlex.quote(str(container["image"]))]
        return " ".join(("genguard install", *flags))

    def _shared(self) -> Iterator[str]:
        """How many pods there are, and by which store they judge as one."""
        if self.deployment is None:
            return
        address, replicas = store_of(self.deployment), self.deployment["spec"].get("replicas", 1)
        for expected in self.expected:
            if expected["kind"] == "Deployment":
                if address:
                    yield "--ha"
                if address and address != store_of(expected):
                    yield from ("--store", shlex.quote(address))
                # None and a single one are faults of their own.
                if replicas > 1 and replicas != expected["spec"]["replicas"]:
                    yield from ("--replicas", str(replicas))

    def _image(self) -> str:
        for one in self.expected:
            if one["kind"] == "Deployment":
                return str(one["spec"]["template"]["spec"]["containers"][0]["image"])
        return ""

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
