"""Whether the server runs, its Service leads to it, and it may do what it has to do."""

from collections.abc import Iterator
from typing import Final

from webhook.doctor.facts import Facts
from webhook.doctor.line import Level, Line, fail, few, warn, well
from webhook.install.where import path_of, title_of
from webhook.lint.hook import mapping
from webhook.manifest.deployed import HEAL, arguments_of, mode_of
from webhook.manifest.rendering import is_registration
from webhook.manifest.store import store_of

_OWN_CHECK: Final = {"Secret"}  # the certificate has a check of its own


def installed(facts: Facts) -> Iterator[Line]:
    """Every object of the manifests is there."""
    if facts.outside:
        return
    missing = [
        title_of(one)
        for one in facts.expected
        if not is_registration(one) and one["kind"] not in _OWN_CHECK
        if facts.live.get(path_of(one)) is None
    ]
    told = f"missing: {few(missing)}"
    lines = [fail("installed", told, facts.install)] if missing else []
    yield from well("installed", f"every object in namespace {facts.namespace} is there", lines)


def pods(facts: Facts) -> Iterator[Line]:
    """Ready, not more than can judge a write together, and where the Service leads."""
    deployment = facts.deployment
    if facts.outside or deployment is None:
        return
    kubectl = f"kubectl -n {facts.namespace}"
    wanted = mapping(deployment.get("spec")).get("replicas", 1)
    ready = mapping(deployment.get("status")).get("availableReplicas", 0)

    scale = f"{kubectl} scale deployment/genguard --replicas={facts.replicas}"

    def look() -> Iterator[Line]:
        if not wanted:
            told = "scaled to 0: each write waits for a server that is not there"
            yield fail("pods", told, scale)
        elif wanted > 1 and not store_of(deployment):
            told = f"{wanted} replicas without a store in common: each sees a part of a write. "
            yield fail("pods", f"{told}One does, or genguard install --ha brings a store", scale)
        elif not ready:
            yield fail("pods", f"none of {wanted} is ready", f"{kubectl} describe pods")
        elif ready < wanted:
            yield warn("pods", f"{ready} of {wanted} are ready", f"{kubectl} describe pods")
        if ready and not facts.endpoints:
            told = "ready, but the Service leads to none of them"
            yield fail("pods", told, facts.install)

    yield from well("pods", f"{ready} of {wanted} are ready, and the Service leads to them", look())


def rights(facts: Facts) -> Iterator[Line]:
    """What the ClusterRole of the manifests grants, asked of the API server."""
    if not facts.rights:
        return
    missing = [str(right) for right in facts.rights if not right.allowed]
    if facts.outside:
        who, mend = "with this kubeconfig one", "genguard serve --kubeconfig FILE"
    else:
        who, mend = "the server", facts.install
    told = f"{who} may not {few(missing)}"
    lines = [fail("rights", told, mend)] if missing else []
    yield from well("rights", f"{who} may do what it has to do", lines)


def heal(facts: Facts) -> Iterator[Line]:
    """Whether a lost value is put back that nobody writes again."""
    if facts.outside or facts.deployment is None or mode_of(facts.deployment) == "audit-only":
        return
    told = "the leader puts lost values back by patches of status"
    if HEAL not in arguments_of(facts.deployment):
        told = "off: a value that was lost before stays so until somebody writes that status; "
        told += "genguard install --heal puts it back"
    yield Line(Level.OK, "heal", told)
