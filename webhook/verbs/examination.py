"""One look at genguard in a cluster, for the doctor: it creates nothing and changes nothing."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import product
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import manifests
from certs import PairSnapshot
from webhook.cluster.apply import find, leftovers
from webhook.cluster.discovery import discover
from webhook.cluster.install_waits import Probed, leaving, read_pair, send_probe, send_probes
from webhook.cluster.rest import RefusedError, Rest
from webhook.doctor.facts import Facts, Right
from webhook.generation.custom import BadDefinitionError, from_definition
from webhook.manifest.documents import AUDIT_ONLY, HEAL, arguments_of, path_of, title_of
from webhook.manifest.kustomize import Document
from webhook.manifest.rendering import (
    INJECTED,
    REGISTRATIONS,
    Choices,
    SharedStore,
    pair_files,
    render,
    secret_of,
    store_of,
)
from webhook.verbs.installation import connected, registrations

_REVIEWS: Final = "/apis/authorization.k8s.io/v1"
_WATCHED: Final = "default"
"""A namespace that is always there, and that the registrations do not leave out."""
_PROBES: Final = 20
_DIAL_SECONDS: Final = 3.0
_NO_PAIR: Final = PairSnapshot(b"", b"", None)
T = TypeVar("T")


async def examine(kubeconfig: str | None, context: str | None, namespace: str) -> Facts:
    """Raise NoClusterError, RefusedError or UNREACHED; what may not be looked at is noted."""
    async with connected(kubeconfig, context) as (rest, _):
        look = _Look(rest, namespace)
        version = await rest.get("/version")
        configurations = await look.noted("the registrations", look.configurations) or ()
        deployment = await look.noted("the Deployment", look.deployment)
        choices = replace(
            _choices(deployment or {}, namespace), cert_manager=_is_injected(configurations)
        )
        expected = tuple(render(choices, manifests.read, pair_files(_NO_PAIR)))
        probed = await send_probe(rest, _WATCHED)
        probes = await send_probes(rest, _WATCHED, _PROBES)
        now = datetime.now(UTC)
        facts = Facts(
            at=now,
            namespace=namespace,
            version=version["gitVersion"],
            expected=expected,
            configurations=configurations,
            live={path_of(one): await look.live(one) for one in expected},
            leftovers=await look.noted("what is left of installations", look.leftovers) or (),
            endpoints=await look.noted("the endpoints", look.endpoints) or 0,
            pair=await look.noted("the Secret", look.pair),
            probe=probed.seen,
            refusal=probed.refusal,
            probes=tuple(one.seen for one in probes),
            leaving=tuple(await look.noted("the pods", look.leaving) or ()),
            skew=_skew(probed, now),
            served=await look.noted("what is served", look.served) or frozenset(),
            custom=await look.noted("custom resources", look.custom) or (),
            unread=look.unread,
        )
        return await look.completed(facts)


class _Look:
    """What is asked of the API server; what may not be looked at is noted, the rest goes on."""

    def __init__(self, rest: Rest, namespace: str) -> None:
        self._rest: Final = rest
        self._namespace: Final = namespace
        self.unread: Final[dict[str, str]] = {}

    async def noted(self, what: str, ask: Callable[[], Awaitable[T]]) -> T | None:
        """The answer; None where it is refused."""
        try:
            return await ask()
        except RefusedError as error:
            self.unread[what] = str(error)
            return None

    async def live(self, document: Document) -> Document | None:
        """An object as it is; its own document where it may not be seen."""
        try:
            return await find(self._rest, document)
        except RefusedError as error:
            self.unread[title_of(document)] = str(error)
            return document

    async def deployment(self) -> Document | None:
        """The pods' Deployment; None where there is none."""
        metadata = {"name": "genguard", "namespace": self._namespace}
        return await find(
            self._rest, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata}
        )

    async def leaving(self) -> list[str]:
        """Pods that are about to end."""
        found = await self.deployment()
        return await leaving(self._rest, found) if found else []

    async def configurations(self) -> tuple[Document, ...]:
        """Every webhook configuration."""
        return tuple(await registrations(self._rest))

    async def leftovers(self) -> tuple[Document, ...]:
        """Of installations that did not get to their end."""
        return tuple(await leftovers(self._rest))

    async def endpoints(self) -> int:
        """How many ready addresses the Service leads to."""
        path = f"/apis/discovery.k8s.io/v1/namespaces/{self._namespace}/endpointslices"
        slices = await self._rest.get(path, labelSelector="kubernetes.io/service-name=genguard")
        return sum(
            len(one["addresses"])
            for found in slices["items"]
            for one in found.get("endpoints") or ()
            if (one.get("conditions") or {}).get("ready", True)
        )

    async def pair(self) -> PairSnapshot | None:
        """What the Secret holds."""
        return read_pair(await find(self._rest, secret_of(self._namespace)))

    async def served(self) -> frozenset[tuple[str, str, str]]:
        """Group, version and resource of every kind."""
        return frozenset(
            (one.group, one.version, one.resource) for one in await discover(self._rest)
        )

    async def custom(self) -> tuple[tuple[str, str], ...]:
        """Custom resources that have something to watch: group and plural."""
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        listed_ = await self._rest.get(path)
        return tuple(sorted({pair for one in listed_["items"] for pair in _custom(one)}))

    async def completed(self, facts: Facts) -> Facts:
        """What depends on where the server runs."""
        pair = await _served(facts.outside) if facts.outside else facts.pair
        rights = await self.noted("rights", lambda: self._rights(facts)) or ()
        return replace(facts, pair=pair, rights=rights)

    async def _rights(self, facts: Facts) -> tuple[Right, ...]:
        """Those of the roles: of the server's account, or of whoever asks."""
        found = []
        account = f"system:serviceaccount:{self._namespace}:genguard"
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{self._namespace}"]
        for needed in _needed(facts):
            attributes = {key: value for key, value in needed.items() if value}
            resource, _, subresource = needed["resource"].partition("/")
            if subresource:
                attributes |= {"resource": resource, "subresource": subresource}
            spec: dict[str, Any] = {"resourceAttributes": attributes}
            kind = "SelfSubjectAccessReview"
            if not facts.outside:
                kind = "SubjectAccessReview"
                spec |= {"user": account, "groups": [*groups, "system:authenticated"]}
            body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
            answer = await self._rest.call("POST", f"{_REVIEWS}/{kind.lower()}s", body)
            allowed = bool(answer["status"].get("allowed"))
            verb, group = needed["verb"], needed["group"]
            found.append(Right(verb, group, needed["resource"], allowed, needed["name"]))
        return tuple(found)


def _choices(deployment: Document, namespace: str) -> Choices:
    """What was chosen for a Deployment, as far as it decides which objects there are."""
    address = store_of(deployment)
    own = next(
        store_of(one)
        for one in render(
            Choices(namespace=namespace, ha=True), manifests.read, pair_files(_NO_PAIR)
        )
        if one["kind"] == "Deployment"
    )
    arguments = arguments_of(deployment)
    return Choices(
        namespace=namespace,
        audit_only=AUDIT_ONLY in arguments,
        heal=HEAL in arguments,
        ha=bool(address),
        # Where it is matters to nothing that is looked at here.
        store=SharedStore(address, "", 0) if address not in ("", own) else None,
    )


def _needed(facts: Facts) -> Iterator[dict[str, str]]:
    """The attributes of each right; a server outside serves a certificate of its own."""
    kinds = ("ClusterRole",) if facts.outside else ("ClusterRole", "Role")
    for document in facts.expected:
        for rule in document["rules"] if document["kind"] in kinds else ():
            named = rule.get("resourceNames") or ("",)
            if facts.outside and "resourceNames" in rule:
                continue
            for parts in product(rule["verbs"], rule["apiGroups"], rule["resources"], named):
                keys = ("verb", "group", "resource", "name")
                place = {"namespace": document["metadata"].get("namespace", "")}
                yield dict(zip(keys, parts, strict=True)) | place


def _is_injected(configurations: Iterable[Document]) -> bool:
    """Whether cert-manager sees to the bundles of ours."""
    names = {name for _, name in REGISTRATIONS}
    ours = [one["metadata"] for one in configurations if one["metadata"]["name"] in names]
    return any(INJECTED in (one.get("annotations") or {}) for one in ours)


def _custom(definition: Mapping[str, Any]) -> list[tuple[str, str]]:
    try:
        return [(one.group, one.resource) for one in from_definition(dict(definition))]
    except BadDefinitionError:
        return []


def _skew(probed: Probed, now: datetime) -> float:
    """Seconds that this clock is ahead; the API server tells whole seconds."""
    try:
        return (now - parsedate_to_datetime(probed.date)).total_seconds() - 0.5
    except ValueError:
        return 0.0


async def _served(url: str) -> PairSnapshot | None:
    """The certificate that a server shows, as far as it can be reached from here."""
    at = urlsplit(url)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        async with asyncio.timeout(_DIAL_SECONDS):
            _, writer = await asyncio.open_connection(at.hostname, at.port or 443, ssl=context)
    except (OSError, TimeoutError):
        return None
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return PairSnapshot(ssl.DER_cert_to_PEM_cert(shown).encode(), b"", None)
