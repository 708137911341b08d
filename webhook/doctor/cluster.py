"""Check the cluster and the server in it: version, objects, pods, rights, order, kinds."""

from collections.abc import Iterator
from typing import Final

from genguard.detection.suspects import FIRST_WITH_STATIC
from genguard.generation.strategy import parse_version
from genguard.generation.table import load_table
from genguard.linting.checks.order import order_genguard
from genguard.linting.hook import MUTATING, items, mapping, texts
from genguard.linting.lint import lint
from genguard.trace.plan import is_observer
from webhook.doctor.facts import Facts
from webhook.doctor.result import CheckResult, Level, fail, few, results_or_ok, warn
from webhook.manifest.documents import (
    HEAL,
    arguments_of,
    mode_of,
    path_of,
    title_of,
)
from webhook.manifest.rendering import is_registration, store_of
from webhook.manifest.static_webhooks import given_of

_OLDEST: Final = (1, 30)
_OWN_CHECK: Final = {"Secret"}  # see the check of the certificate


def api_server(facts: Facts) -> Iterator[CheckResult]:
    """The API server is new enough for matchConditions and the preStop sleep action."""
    old = parse_version(facts.version) < _OLDEST
    message = f"Kubernetes {facts.version} is too old: 1.30 or newer is needed"
    results = [fail("api-server", message, "kubectl version")] if old else []
    yield from results_or_ok("api-server", f"Kubernetes {facts.version}", results)
    for what, why in facts.unread.items():
        yield warn("api-server", f"{what} could not be read: {why}", "kubectl auth whoami")


def installed(facts: Facts) -> Iterator[CheckResult]:
    """Every object of the manifests exists."""
    if facts.outside:
        return
    missing = [
        title_of(one)
        for one in facts.expected
        if not is_registration(one) and one["kind"] not in _OWN_CHECK
        if facts.live.get(path_of(one)) is None
    ]
    message = f"missing: {few(missing)}"
    results = [fail("installed", message, facts.install)] if missing else []
    yield from results_or_ok(
        "installed", f"every object in namespace {facts.namespace} exists", results
    )


def pods(facts: Facts) -> Iterator[CheckResult]:
    """Pods are ready, share a store if there are several, and the Service selects them."""
    deployment = facts.deployment
    if facts.outside or deployment is None:
        return
    kubectl = f"kubectl -n {facts.namespace}"
    wanted = mapping(deployment.get("spec")).get("replicas", 1)
    ready = mapping(deployment.get("status")).get("availableReplicas", 0)

    scale = f"{kubectl} scale deployment/genguard --replicas={facts.replicas}"

    def problems() -> Iterator[CheckResult]:
        if not wanted:
            message = "scaled to 0: each write waits for a server that does not run"
            yield fail("pods", message, scale)
        elif wanted > 1 and not store_of(deployment):
            message = f"{wanted} replicas without a shared store: each sees only parts of a write. "
            yield fail(
                "pods",
                f"{message}Use one replica, or install a store with genguard install --ha",
                scale,
            )
        elif not ready:
            yield fail("pods", f"none of {wanted} is ready", f"{kubectl} describe pods")
        elif ready < wanted:
            yield warn("pods", f"{ready} of {wanted} are ready", f"{kubectl} describe pods")
        if ready and not facts.endpoints:
            message = "ready, but the Service has no endpoint"
            yield fail("pods", message, facts.install)

    yield from results_or_ok(
        "pods", f"{ready} of {wanted} are ready, and the Service has endpoints", problems()
    )


def rights(facts: Facts) -> Iterator[CheckResult]:
    """The server has the rights of the ClusterRole in the manifests."""
    if not facts.rights:
        return
    missing = [str(right) for right in facts.rights if not right.allowed]
    if facts.outside:
        who, repair = "this kubeconfig's user", "genguard serve --kubeconfig FILE"
    else:
        who, repair = "the server", facts.install
    message = f"{who} may not {few(missing)}"
    results = [fail("rights", message, repair)] if missing else []
    yield from results_or_ok("rights", f"{who} has every right that it needs", results)


def heal(facts: Facts) -> Iterator[CheckResult]:
    """Say whether genguard restores lost values by itself, without waiting for the next write."""
    if facts.outside or facts.deployment is None or mode_of(facts.deployment) == "audit-only":
        return
    message = "the leader restores lost values by patches of status"
    if HEAL not in arguments_of(facts.deployment):
        message = "off: a lost value stays lost until that status is written again; "
        message += "genguard install --heal restores it"
    yield CheckResult(Level.OK, "heal", message)


def order(facts: Facts) -> Iterator[CheckResult]:
    """No other mutating webhook runs before intent or after mutate."""
    # Observers of `genguard trace` sort outside on purpose, and change nothing.
    others = [one for one in facts.configurations if not is_observer(one)]
    found = lint(others, at=facts.at, live=True, checks=(order_genguard,))
    names = dict.fromkeys((one.webhook.partition("/")[0], one.message) for one in found)
    results = [warn("order", f"{name} {message}", _renamed(name)) for name, message in names]
    count = sum(one["kind"] == MUTATING for one in others)
    message = (
        f"first and last of {count} mutating configurations; those in files of the API server "
    )
    return results_or_ok("order", message + "cannot be checked", results)


def static(facts: Facts) -> Iterator[CheckResult]:
    """Say whether the server knows which static webhooks the API server may have."""
    may_have_some = parse_version(facts.version) >= FIRST_WITH_STATIC
    if facts.outside or facts.deployment is None or not may_have_some:
        return
    message = "the server knows the static webhooks of the API server"
    if not given_of(facts.deployment):
        message = "no API lists webhooks in files of the API server (KEP-5793), so of users a "
        message += "finding is at most likely; genguard install --static-webhooks says which there "
        message += "are, or none"
    yield CheckResult(Level.OK, "static", message)


def kinds(facts: Facts) -> Iterator[CheckResult]:
    """Say which watched kinds this API server serves and keeps a generation for."""
    watched = {
        (group, version, resource)
        for found in facts.registered.values()
        for rule in map(mapping, items(found.hook.body.get("rules")))
        for group in texts(rule.get("apiGroups"))
        for version in texts(rule.get("apiVersions"))
        for resource in texts(rule.get("resources"))
        if "/" not in resource
    }
    if not watched or not facts.served:
        return
    table = load_table(facts.version)
    served = {(group, resource) for group, _, resource in watched & facts.served}
    numbered = [one for one in served if (row := table.find(*one)) and row.keeps_generation]
    message = f"{len(served)} kinds are watched; {len(numbered)} of them have a generation: "
    message += "it is checked, and their status is repaired"
    unserved = sorted(resource for _, _, resource in watched - facts.served)
    if unserved:
        message += f"; not served here: {few(unserved)}"
    unwatched = [f"{one[1]}.{one[0]}" for one in facts.custom if one not in served]
    if unwatched:
        message += f"; custom resources that are not watched: {few(unwatched)}"
    yield CheckResult(Level.OK, "kinds", message)


def _renamed(name: str) -> str:
    """The command that renames a configuration. Its owner may create the old name again."""
    get = f"kubectl get mutatingwebhookconfiguration {name} -o yaml"
    edit = f"sed '/^  \\(uid\\|resourceVersion\\):/d; s/^  name: {name}$/  name: m-{name}/'"
    delete = f"kubectl delete mutatingwebhookconfiguration {name}"
    return f"{get} | {edit} | kubectl create -f - && {delete}"
