"""`genguard doctor`: what works, what does not, and the command that repairs it.

It creates nothing and changes nothing.
"""

import asyncio
import ssl
import sys
from collections.abc import Awaitable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from typing import Final, TypeVar
from urllib.parse import urlsplit

import click

import manifests
from certs import PairSnapshot
from genguard.objects.shown import printable
from webhook.cli.asking_server import NoServerError
from webhook.cli.errors import ExitCode, why_it_ended
from webhook.cli.install import IN_NAMESPACE
from webhook.cli.options import Access, asks_server, verb
from webhook.cli.output import CHECKED, is_terminal, print_checked, with_margin
from webhook.cli.targets import ask_findings
from webhook.cluster.certificates import read_pair
from webhook.cluster.installation import (
    choices_of,
    find,
    is_injected,
    leaving,
    leftovers,
    send_probe,
    why_not_ready,
)
from webhook.cluster.rest import RefusedError, Rest, ask
from webhook.doctor.checks import diagnose
from webhook.doctor.facts import CheckResult, Facts, Level, Right, Source
from webhook.install.installing import registrations
from webhook.manifest.documents import path_of, title_of
from webhook.manifest.rendering import deployment_of, render, secret_of

_COLOURS = {Level.OK: "green", Level.UNKNOWN: "yellow", Level.WARN: "yellow", Level.FAIL: "red"}
_WATCHED: Final = "default"
"""A namespace that every cluster has and that the registrations include."""
_PROBES: Final = 20
_DIAL_SECONDS: Final = 3.0
_FINDINGS_SECONDS: Final = 10.0
T = TypeVar("T")


@verb()
@CHECKED
@IN_NAMESPACE
@asks_server
def doctor(*, output: str, namespace: str, access: Access) -> None:
    """Tell whether genguard is well in a cluster."""
    try:
        lines = diagnose(asyncio.run(_examine(access, namespace)))
    except Exception as error:
        code, message = why_it_ended(error)
        if code is ExitCode.DONE:
            raise
        lines = (CheckResult(Level.FAIL, "api-server", message, "kubectl cluster-info"),)
    print_checked(lines, _row, output, Level, lambda line: line.level)
    sys.exit(any(line.level.rank for line in lines))


def _row(line: CheckResult) -> str:
    level = click.style(f"{line.level.value:4} ", fg=_COLOURS[line.level])
    lead = f"{level}{line.id:14}"
    message, fix = printable(line.message), printable(line.fix)
    if is_terminal():  # a command is copied as it is: it is never wrapped
        return "\n".join(filter(None, (with_margin(lead, message), fix and f"     {fix}")))
    return f"{lead}{message}{f'  — {fix}' if fix else ''}"


async def _examine(access: Access, namespace: str) -> Facts:
    """Read everything that the checks need. Raises NoClusterError, RefusedError or UNREACHED.

    What the user may not read is noted in the facts.
    """
    asked = access._replace(server=access.server or namespace)
    async with access.connected() as rest:
        facts = await _examined(rest, namespace)
        try:
            async with asyncio.timeout(_FINDINGS_SECONDS), asked.reached(rest) as server:
                return replace(facts, findings=await ask_findings(server))
        except (NoServerError, TimeoutError) as error:
            reason = str(error) or f"no answer within {_FINDINGS_SECONDS:g} s"
            return replace(facts, unasked=reason)


async def _examined(rest: Rest, namespace: str) -> Facts:
    """Read all that the API server knows."""
    unread: dict[str, str] = {}

    async def read(what: str, answer: Awaitable[T], otherwise: T) -> T:
        """Await an answer of the API server; where it refuses, note why."""
        try:
            return await answer
        except RefusedError as error:
            unread[what] = str(error)
            return otherwise

    version = await rest.get("/version")
    configurations = await read(Source.REGISTRATIONS, registrations(rest), [])
    deployment = await read(Source.DEPLOYMENT, find(rest, deployment_of(namespace)), None)
    choices = choices_of(deployment or {}, namespace)
    choices = replace(choices, cert_manager=is_injected(configurations))
    expected = tuple(render(choices, manifests.read))
    probe, _, refusal = await send_probe(rest, _WATCHED)
    probes = await asyncio.gather(*(send_probe(rest, _WATCHED) for _ in range(_PROBES)))
    endpoints = await read(Source.ENDPOINTS, _endpoints(rest, namespace), [])
    facts = Facts(
        at=datetime.now(UTC),
        namespace=namespace,
        version=version["gitVersion"],
        expected=expected,
        configurations=tuple(configurations),
        live={
            path_of(document): await read(title_of(document), find(rest, document), document)
            for document in expected
        },
        leftovers=tuple(await read(Source.LEFTOVERS, leftovers(rest), [])),
        endpoints=endpoints.count(True),
        unready=endpoints.count(False),
        pair=read_pair(await read(Source.PAIR, find(rest, secret_of(namespace)), None)),
        probe=probe,
        refusal=refusal,
        probes=tuple(seen for seen, _, _ in probes),
        leaving=tuple(await read(Source.PODS, leaving(rest, deployment), [])) if deployment else (),
        blocked=await read(Source.PODS, why_not_ready(rest, deployment), "") if deployment else "",
        nodes=await _nodes(rest),
        unread=unread,
    )
    if facts.outside:
        facts = replace(facts, pair=await _shown_pair(facts.outside))
    return replace(facts, rights=await read(Source.RIGHTS, _rights(rest, facts), ()))


async def _endpoints(rest: Rest, namespace: str) -> list[bool]:
    """Whether each address of the Service is ready."""
    path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    slices = await rest.list_all(path, {"labelSelector": "kubernetes.io/service-name=genguard"})
    return [
        (endpoint.get("conditions") or {}).get("ready", True)
        for found in slices
        for endpoint in found.get("endpoints") or ()
        for _ in endpoint["addresses"]
    ]


async def _nodes(rest: Rest) -> dict[str, str] | None:
    """The version of the kubelet of each node, by name; None when they may not be read.

    genguard itself needs no right to them, so that is no fault.
    """
    try:
        nodes = await rest.list_all("/api/v1/nodes")
    except RefusedError:
        return None
    return {
        node["metadata"]["name"]: ((node.get("status") or {}).get("nodeInfo") or {}).get(
            "kubeletVersion", ""
        )
        for node in nodes
    }


async def _rights(rest: Rest, facts: Facts) -> tuple[Right, ...]:
    """Ask which rights of the roles are granted: to the server's account, else to the user."""
    kind, who = "SelfSubjectAccessReview", {}
    if not facts.outside:
        accounts = "system:serviceaccounts"
        groups = [accounts, f"{accounts}:{facts.namespace}", "system:authenticated"]
        user = f"system:serviceaccount:{facts.namespace}:genguard"
        kind, who = "SubjectAccessReview", {"user": user, "groups": groups}
    found = []
    for namespace, right in _needed(facts):
        resource, _, subresource = right.resource.partition("/")
        attributes = {
            "verb": right.verb,
            "group": right.group,
            "resource": resource,
            "subresource": subresource,
            "name": right.name,
            "namespace": namespace,
        }
        given = {key: value for key, value in attributes.items() if value}
        spec = {"resourceAttributes": given, **who}
        answer = await ask(rest, kind, spec)
        found.append(right._replace(allowed=bool(answer.get("allowed"))))
    return tuple(found)


def _needed(facts: Facts) -> Iterator[tuple[str, Right]]:
    """Each right that is needed, with its namespace; fewer for a server outside the cluster."""
    kinds = ("ClusterRole",) if facts.outside else ("ClusterRole", "Role")
    for document in facts.expected:
        namespace = document["metadata"].get("namespace", "")
        for rule in document["rules"] if document["kind"] in kinds else ():
            named = rule.get("resourceNames")
            if "resources" not in rule or (facts.outside and named):
                continue  # the metrics of the API server, or what is in the cluster alone
            parts = product(rule["verbs"], rule["apiGroups"], rule["resources"], named or ("",))
            for may, group, resource, name in parts:
                yield namespace, Right(may, group, resource, allowed=False, name=name)


async def _shown_pair(url: str) -> PairSnapshot | None:
    """The certificate that a server at a URL serves; None when it is not reached."""
    at = (urlsplit(url).hostname or "", urlsplit(url).port or 443)
    try:
        pem = await asyncio.to_thread(ssl.get_server_certificate, at, timeout=_DIAL_SECONDS)
    except OSError:
        return None
    return PairSnapshot(pem.encode(), b"", None)
