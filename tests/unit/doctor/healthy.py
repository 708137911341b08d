"""Facts of an installation on which all is well, to be made worse one by one."""

from base64 import b64encode
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import manifests
from certs import installed_names, issue
from webhook import __version__
from webhook.doctor.checks import diagnose
from webhook.doctor.facts import CheckResult, Facts, Level, Right
from webhook.manifest.documents import mode_of, path_of
from webhook.manifest.rendering import PHASES, Choices, is_registration, render

LOOKED_AT = ("namespace", "cert_manager", "audit_only", "heal", "ha", "store")
"""Choices that decide which objects there are: the doctor reads them from the cluster."""
NOW = datetime(2026, 5, 1, tzinfo=UTC)
PAIR = issue(names=installed_names("genguard", "genguard-system"), at=NOW)


def healthy(**choices: Any) -> Facts:
    """As `install` leaves it."""
    rendered = render(Choices(**choices), manifests.read, PAIR.files)
    live = {path_of(one): deepcopy(one) for one in rendered}
    deployment = next(one for one in live.values() if one["kind"] == "Deployment")
    deployment["status"] = {"availableReplicas": deployment["spec"]["replicas"]}
    said = {"version": __version__, "mode": mode_of(deployment), "instance": "genguard-1"}
    said |= {"store": "valkey" if choices.get("ha") else "memory", "incomplete": "0/1000"}
    said |= {"costly": "0", "last": "2026-04-30T23:59:50Z", "failing": "none"}
    seen = dict.fromkeys(PHASES, said)
    looked_at = {name: choice for name, choice in choices.items() if name in LOOKED_AT}
    return Facts(
        at=NOW,
        namespace=choices.get("namespace", "genguard-system"),
        version="v1.36.3",
        expected=tuple(render(Choices(**looked_at), manifests.read, PAIR.files)),
        live=live,
        configurations=tuple(one for one in live.values() if is_registration(one)),
        endpoints=1,
        pair=PAIR,
        probe=seen,
        probes=(seen,) * 20,
        findings=(),
        nodes={"node-1": "v1.36.3"},
        rights=(Right("list", "apiextensions.k8s.io", "customresourcedefinitions", True),),
    )


def with_hook(facts: Facts, name: str, **changes: Any) -> Facts:
    """A registration, by a part of its name, whose webhook is changed; None takes a field away."""
    documents = deepcopy(facts.configurations)
    (document,) = (one for one in documents if name in one["metadata"]["name"])
    hook = document["webhooks"][0]
    for field, value in changes.items():
        hook[field] = value
    return replace(facts, configurations=documents)


def with_bundle(facts: Facts, pem: bytes) -> Facts:
    """Another caBundle in one registration."""
    service = facts.registered["mutate"].hook.body["clientConfig"]["service"]
    config = {"service": service, "caBundle": b64encode(pem).decode()}
    return with_hook(facts, "mutate", clientConfig=config)


def with_deployment(facts: Facts, spec: dict[str, Any], status: dict[str, Any]) -> Facts:
    """More or fewer pods."""
    live = deepcopy(dict(facts.live))
    deployment = next(one for one in live.values() if one and one["kind"] == "Deployment")
    deployment["spec"] |= spec
    deployment["status"] = status
    return replace(facts, live=live)


def without_argument(facts: Facts, argument: str) -> Facts:
    """A Deployment whose server is not given this flag."""
    live = deepcopy(dict(facts.live))
    deployment = next(one for one in live.values() if one and one["kind"] == "Deployment")
    deployment["spec"]["template"]["spec"]["containers"][0]["args"].remove(argument)
    return replace(facts, live=live)


def with_said(facts: Facts, **said: str) -> Facts:
    """What the server says of itself."""
    probe = {phase: {**seen, **said} for phase, seen in facts.probe.items()}
    return replace(facts, probe=probe, probes=(probe,) * len(facts.probes))


def with_split(facts: Facts, count: int, **said: str) -> Facts:
    """So many of the dry runs have reached another pod at /outcome, which says this."""
    told = {**facts.probe["outcome"], "instance": "genguard-2", **said}
    split = {**facts.probe, "outcome": told}
    return replace(facts, probes=(*(split,) * count, *facts.probes[count:]))


def with_service(facts: Facts, affinity: str) -> Facts:
    """Another sessionAffinity."""
    live = deepcopy(dict(facts.live))
    service = next(one for one in live.values() if one and one["kind"] == "Service")
    service["spec"]["sessionAffinity"] = affinity
    return replace(facts, live=live)


def worst(facts: Facts) -> dict[str, CheckResult]:
    """What is not well."""
    return {line.id: line for line in diagnose(facts) if line.level is not Level.OK}
