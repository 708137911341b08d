"""`genguard doctor`: what works, what does not, and the command that repairs it.

It creates nothing and changes nothing.
"""

import asyncio
import ssl
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import product
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import click

import manifests
from certs import PairSnapshot
from genguard.generation.custom import BadDefinitionError, from_definition
from genguard.objects.shown import json_line, printable
from webhook.cli.asking_server import NoServerError, ServerChoice
from webhook.cli.culprits import ask_findings
from webhook.cli.errors import one_line_errors
from webhook.cli.install import connected, reads_installation, registrations
from webhook.cli.options import OUTPUT, asks_server
from webhook.cluster.apply import find, leftovers
from webhook.cluster.discovery import discover
from webhook.cluster.install_waits import (
    Probed,
    leaving,
    read_pair,
    send_probe,
    send_probes,
)
from webhook.cluster.installation import choices_of, is_injected
from webhook.cluster.rest import RefusedError, Rest
from webhook.doctor.diagnose import diagnose
from webhook.doctor.facts import Facts, Right
from webhook.doctor.result import (
    CheckResult,
    Level,
)
from webhook.manifest.documents import (
    path_of,
    title_of,
)
from webhook.manifest.kustomize import Document
from webhook.manifest.rendering import (
    pair_files,
    render,
    secret_of,
)

_COLOURS = {Level.OK: "green", Level.UNKNOWN: "yellow", Level.WARN: "yellow", Level.FAIL: "red"}
_REVIEWS: Final = "/apis/authorization.k8s.io/v1"
_WATCHED: Final = "default"
"""A namespace that every cluster has and that the registrations include."""
_PROBES: Final = 20
_NODES_AT_ONCE: Final = "500"
_DIAL_SECONDS: Final = 3.0
_FINDINGS_SECONDS: Final = 10.0
_NO_PAIR: Final = PairSnapshot(b"", b"", None)
T = TypeVar("T")


@click.command()
@OUTPUT
@reads_installation
@asks_server
def doctor(
    output: str,
    *,
    namespace: str,
    kubeconfig: str | None,
    context: str | None,
    server: str | None,
    token: str,
) -> None:
    """Tell whether genguard is well in a cluster.

    Whether it does its work, and holds up nobody else's. Creates nothing: a dry run in namespace
    default must be seen in every phase. Each line says how something stands, and if it is not
    well, the command that mends it. Open findings of the server come last, with who is to blame:
    of --server, else of a pod in the namespace, by a forwarded port. Where neither answers, the
    line says unknown.

    The exit code is 0 when nothing warns or fails, 1 when something does, or the cluster cannot be
    asked, 2 when the command line is wrong. What is unknown does not change it.
    """
    with one_line_errors():
        choice = ServerChoice(server or namespace, token)
    lines = _diagnosed(kubeconfig, context, namespace, choice)
    for line in lines:
        click.echo(json_line(line) if output == "json" else _row(line))
    counts = {level.value: sum(line.level is level for line in lines) for level in Level}
    if output == "json":
        click.echo(json_line({"type": "summary", **counts}))
    else:
        click.echo(", ".join(f"{count} {name}" for name, count in counts.items()))
    sys.exit(any(line.level.rank for line in lines))


def _diagnosed(
    kubeconfig: str | None,
    context: str | None,
    namespace: str,
    choice: ServerChoice,
) -> tuple[CheckResult, ...]:

    try:
        with one_line_errors():
            return diagnose(asyncio.run(examine(kubeconfig, context, namespace, choice)))
    except click.ClickException as error:
        return (
            CheckResult(Level.FAIL, "api-server", error.format_message(), "kubectl cluster-info"),
        )


def _row(line: CheckResult) -> str:
    level = click.style(f"{line.level.value:4} ", fg=_COLOURS[line.level])
    told = f"{line.message}{f'  — {line.fix}' if line.fix else ''}"
    return f"{level}{line.id:14}{printable(told)}"


async def examine(
    kubeconfig: str | None, context: str | None, namespace: str, choice: ServerChoice
) -> Facts:
    """Read everything that the checks need. Raises NoClusterError, RefusedError or UNREACHED.

    What the user may not read is noted in the facts.
    """
    async with connected(kubeconfig, context) as (rest, _):
        asked = _Questions(rest, namespace)
        version = await rest.get("/version")
        configurations = await asked.noted("the registrations", asked.configurations) or ()
        deployment = await asked.noted("the Deployment", asked.deployment)
        choices = replace(
            choices_of(deployment or {}, namespace), cert_manager=is_injected(configurations)
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
            live={path_of(one): await asked.live(one) for one in expected},
            leftovers=await asked.noted("what is left of installations", asked.leftovers) or (),
            endpoints=await asked.noted("the endpoints", asked.endpoints) or 0,
            pair=await asked.noted("the Secret", asked.pair),
            probe=probed.seen,
            refusal=probed.refusal,
            probes=tuple(one.seen for one in probes),
            leaving=tuple(await asked.noted("the pods", asked.leaving) or ()),
            skew=_skew(probed, now),
            served=await asked.noted("what is served", asked.served) or frozenset(),
            custom=await asked.noted("custom resources", asked.custom) or (),
            nodes=await asked.nodes(),
            unread=asked.unread,
        )
        facts = await asked.completed(facts)
        try:
            async with asyncio.timeout(_FINDINGS_SECONDS):
                findings = await ask_findings(choice, rest, "")
        except (NoServerError, TimeoutError) as error:
            reason = str(error) or f"no answer within {_FINDINGS_SECONDS:g} s"
            return replace(facts, unasked=reason)
        return replace(facts, findings=findings)


class _Questions:
    """Asks the API server; what the user may not read is noted in `unread`."""

    def __init__(self, rest: Rest, namespace: str) -> None:
        self._rest: Final = rest
        self._namespace: Final = namespace
        self.unread: Final[dict[str, str]] = {}

    async def noted(self, what: str, ask: Callable[[], Awaitable[T]]) -> T | None:
        """Return the answer to a question, or None when the API server refuses it."""
        try:
            return await ask()
        except RefusedError as error:
            self.unread[what] = str(error)
            return None

    async def live(self, document: Document) -> Document | None:
        """The object in the cluster; the expected document when it may not be read."""
        try:
            return await find(self._rest, document)
        except RefusedError as error:
            self.unread[title_of(document)] = str(error)
            return document

    async def deployment(self) -> Document | None:
        """The server's Deployment, or None."""
        metadata = {"name": "genguard", "namespace": self._namespace}
        return await find(
            self._rest, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata}
        )

    async def leaving(self) -> list[str]:
        """The names of pods that are about to end."""
        found = await self.deployment()
        return await leaving(self._rest, found) if found else []

    async def configurations(self) -> tuple[Document, ...]:
        """List every webhook configuration."""
        return tuple(await registrations(self._rest))

    async def leftovers(self) -> tuple[Document, ...]:
        """What installations that were interrupted have left."""
        return tuple(await leftovers(self._rest))

    async def endpoints(self) -> int:
        """Count the ready addresses of the Service."""
        path = f"/apis/discovery.k8s.io/v1/namespaces/{self._namespace}/endpointslices"
        slices = await self._rest.get(path, labelSelector="kubernetes.io/service-name=genguard")
        return sum(
            len(one["addresses"])
            for found in slices["items"]
            for one in found.get("endpoints") or ()
            if (one.get("conditions") or {}).get("ready", True)
        )

    async def pair(self) -> PairSnapshot | None:
        """The certificate and key in the Secret."""
        return read_pair(await find(self._rest, secret_of(self._namespace)))

    async def served(self) -> frozenset[tuple[str, str, str]]:
        """Group, version and resource of every kind that the cluster serves."""
        return frozenset(
            (one.group, one.version, one.resource) for one in await discover(self._rest)
        )

    async def custom(self) -> tuple[tuple[str, str], ...]:
        """Group and plural of every custom resource with a status to watch."""
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        listed_ = await self._rest.get(path)
        return tuple(sorted({pair for one in listed_["items"] for pair in _custom(one)}))

    async def nodes(self) -> dict[str, str] | None:
        """The version of the kubelet of each node, by name; None when they may not be read.

        genguard itself needs no right to them, so that is no fault.
        """
        found: dict[str, str] = {}
        more = ""
        while True:
            asked = {"limit": _NODES_AT_ONCE, "continue": more}
            try:
                page = await self._rest.get("/api/v1/nodes", **asked)
            except RefusedError:
                return None
            for one in page["items"]:
                info = (one.get("status") or {}).get("nodeInfo") or {}
                found[one["metadata"]["name"]] = info.get("kubeletVersion", "")
            more = page["metadata"].get("continue", "")
            if not more:
                return found

    async def completed(self, facts: Facts) -> Facts:
        """Add the facts that depend on where the server runs."""
        pair = await _served(facts.outside) if facts.outside else facts.pair
        rights = await self.noted("rights", lambda: self._rights(facts)) or ()
        return replace(facts, pair=pair, rights=rights)

    async def _rights(self, facts: Facts) -> tuple[Right, ...]:
        """Ask which rights of the roles are granted: to the server's account, else to the user."""
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


def _needed(facts: Facts) -> Iterator[dict[str, str]]:
    """The attributes of each right that is needed; fewer for a server outside the cluster."""
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


def _custom(definition: Mapping[str, Any]) -> list[tuple[str, str]]:
    try:
        return [(one.group, one.resource) for one in from_definition(dict(definition))]
    except BadDefinitionError:
        return []


def _skew(probed: Probed, now: datetime) -> float:
    """Seconds that this clock is ahead of the API server's, which are whole seconds."""
    try:
        return (now - parsedate_to_datetime(probed.date)).total_seconds() - 0.5
    except ValueError:
        return 0.0


async def _served(url: str) -> PairSnapshot | None:
    """The certificate that a server at a URL serves; None when it is not reached."""
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
