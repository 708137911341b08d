"""Whether the server runs, its Service leads to it, and it may do what it has to do."""

from collections.abc import Iterator
from typing import Final

from webhook.doctor.facts import Facts
from webhook.doctor.line import Line, fail, few, warn, well
from webhook.install.where import path_of, title_of
from webhook.lint.hook import mapping
from webhook.manifest.rendering import is_registration

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
    """Ready, more than one, and where the Service leads."""
    deployment = facts.deployment
    if facts.outside or deployment is None:
        return
    kubectl = f"kubectl -n {facts.namespace}"
    wanted = mapping(deployment.get("spec")).get("replicas", 1)
    ready = mapping(deployment.get("status")).get("availableReplicas", 0)

    def look() -> Iterator[Line]:
        if not wanted:
            told = "scaled to 0: each write waits for a server that is not there"
            yield fail("pods", told, f"{kubectl} scale deployment/genguard --replicas=2")
        elif not ready:
            yield fail("pods", f"none of {wanted} is ready", f"{kubectl} describe pods")
        elif ready < wanted:
            yield warn("pods", f"{ready} of {wanted} are ready", f"{kubectl} describe pods")
        elif wanted == 1:
            told = "a single one: while it is replaced, writes pass unwatched"
            yield warn("pods", told, f"{kubectl} scale deployment/genguard --replicas=2")
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
