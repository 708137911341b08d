"""Check the cluster and the server in it: version, objects, pods, rights, order, kinds, nodes."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from genguard.generation.strategy import UnknownServerVersionError, parse_version
from genguard.generation.table import load_table
from genguard.linting.checks.order import order_genguard
from genguard.linting.hook import MUTATING, mapping
from genguard.linting.lint import lint
from genguard.objects.shown import few
from genguard.trace.plan import is_observer
from webhook.doctor.facts import Facts, Line, Source, calls_of, check, fail, ok, warn
from webhook.manifest.documents import (
    HEAL,
    STANDBY,
    arguments_of,
    mode_of,
    path_of,
    title_of,
)
from webhook.manifest.rendering import is_registration, store_of

_OLDEST: Final = (1, 30)
_SKEW_SECONDS: Final = 30
_GATE: Final = "feature gate PodObservedGenerationTracking"
_UNKNOWN: Final = "not known of {}, whose version is none of a kubelet"
# pkg/features/kube_features.go: off by default in 1.33, on in 1.34, always on since 1.35.
_UNTIL: Final = (
    ((1, 33), "never on {} (before 1.33): pods there have none, or an old one that stays"),
    ((1, 34), f"only with {_GATE} on {{}} (1.33)"),
    ((1, 35), f"unless {_GATE} is off on {{}} (1.34)"),
)
"""What is said of nodes before a version."""


@check("api-server")
def api_server(facts: Facts) -> Iterator[Line]:
    """The API server is new enough for matchConditions and the preStop sleep action."""
    if parse_version(facts.version) < _OLDEST:
        message = f"Kubernetes {facts.version} is too old: 1.30 or newer is needed"
        yield fail(message, "kubectl version")
    yield ok(f"Kubernetes {facts.version}")


@check("api-server")
def unread(facts: Facts) -> Iterator[Line]:
    """The user may read all that is asked for."""
    for what, why in facts.unread.items():
        yield warn(f"{what} could not be read: {why}", "kubectl auth whoami")


@check("installed", Source.REGISTRATIONS, Source.OBJECTS)
def installed(facts: Facts) -> Iterator[Line]:
    """Every object of the manifests exists."""
    if facts.outside:
        return
    missing = [
        title_of(one)
        for one in facts.expected
        # The check of the certificate looks at the Secret.
        if not is_registration(one) and one["kind"] != "Secret"
        if facts.live.get(path_of(one)) is None
    ]
    if missing:
        yield fail(f"missing: {few(missing)}", facts.install)
    yield ok(f"every object in namespace {facts.namespace} exists")


@check("pods", Source.REGISTRATIONS, Source.DEPLOYMENT, Source.ENDPOINTS)
def pods(facts: Facts) -> Iterator[Line]:
    """Pods are ready; several share a store, or stand by; and the Service selects one."""
    deployment = facts.deployment
    if deployment is None:
        return
    wanted = mapping(deployment.get("spec")).get("replicas", 1)
    ready = mapping(deployment.get("status")).get("availableReplicas", 0)
    describe = f"{facts.kubectl} describe pods"
    scale = f"{facts.kubectl} scale deployment/genguard --replicas={facts.replicas}"
    if not wanted:
        yield fail("scaled to 0: each write waits for a server that does not run", scale)
    elif wanted > 1 and not store_of(deployment) and STANDBY not in arguments_of(deployment):
        message = f"{wanted} replicas that all answer, without a shared store: each sees only "
        message += "parts of a write. genguard install makes one active and has the others stand by"
        yield fail(message, facts.install)
    elif not ready:
        yield fail(f"none of {wanted} is ready", describe)
    elif ready < wanted:
        yield warn(f"{ready} of {wanted} are ready", describe)
    if ready and not facts.endpoints and facts.unready:
        # The API server keeps connections to a pod that only answers its readiness probe late.
        message = "the pod behind the Service is not ready: its readiness probe fails or is slow"
        if facts.answers:
            yield warn(f"{message}; it still answers dry runs", describe)
        else:
            yield fail(message, describe)
    elif ready and not facts.endpoints:
        yield fail("ready, but the Service has no endpoint", facts.install)
    yield ok(f"{ready} of {wanted} are ready, and the Service has endpoints")


@check("rights", Source.REGISTRATIONS, Source.RIGHTS)
def rights(facts: Facts) -> Iterator[Line]:
    """The server has the rights of the ClusterRole in the manifests."""
    if not facts.rights:
        return
    who, repair = "the server", facts.install
    if facts.outside:
        who, repair = "this kubeconfig's user", "genguard serve --kubeconfig FILE"
    missing = [str(right) for right in facts.rights if not right.allowed]
    if missing:
        yield fail(f"{who} may not {few(missing)}", repair)
    yield ok(f"{who} has every right that it needs")


@check("heal", Source.DEPLOYMENT, Source.RIGHTS)
def heal(facts: Facts) -> Iterator[Line]:
    """Say whether genguard restores lost values by itself, without waiting for the next write."""
    if facts.deployment is None or mode_of(facts.deployment) == "audit-only":
        return
    if HEAL in arguments_of(facts.deployment):
        yield ok("the leader restores lost values by patches of status")
    else:
        message = "off: a lost value stays lost until that status is written again; "
        yield ok(f"{message}genguard install --heal restores it")


@check("order", Source.REGISTRATIONS)
def order(facts: Facts) -> Iterator[Line]:
    """No other mutating webhook runs before intent or after mutate."""
    # Observers of `genguard trace` sort outside on purpose, and change nothing.
    others = [one for one in facts.configurations if not is_observer(one)]
    found = lint(others, at=facts.at, live=True, checks=(order_genguard,))
    problems = dict.fromkeys((one.webhook.partition("/")[0], one.message) for one in found)
    for name, message in problems:
        yield warn(f"{name} {message}", _renamed(name))
    count = sum(one["kind"] == MUTATING for one in others)
    message = f"first and last of {count} mutating configurations; those in files of the API server"
    yield ok(f"{message} cannot be checked")


def _renamed(name: str) -> str:
    """The command that renames a configuration. Its owner may create the old name again."""
    get = f"kubectl get mutatingwebhookconfiguration {name} -o yaml"
    edit = f"sed '/^  \\(uid\\|resourceVersion\\):/d; s/^  name: {name}$/  name: m-{name}/'"
    delete = f"kubectl delete mutatingwebhookconfiguration {name}"
    return f"{get} | {edit} | kubectl create -f - && {delete}"


@check("clock")
def clock(facts: Facts) -> Iterator[Line]:
    """The clock here and the API server's agree: certificates and Leases depend on it."""
    if abs(facts.skew) > _SKEW_SECONDS:
        where = "ahead of" if facts.skew > 0 else "behind"
        message = f"the clock here is {abs(facts.skew):.0f} s {where} the API server's"
        yield warn(message, "sudo timedatectl set-ntp true")
    yield ok("the clock here and the API server's agree")


@check("kinds", Source.SERVED, Source.CUSTOM)
def kinds(facts: Facts) -> Iterator[Line]:
    """Say which watched kinds this API server serves and keeps a generation for."""
    watched = {
        (group, version, resource)
        for found in facts.registered.values()
        for group, version, resource, _ in calls_of(found.hook.body)
        if "/" not in resource
    }
    if not watched or not facts.served:
        return
    table = load_table(facts.version)
    served = {(group, resource) for group, _, resource in watched & facts.served}
    numbered = [one for one in served if (row := table.find(*one)) and row.keeps_generation]
    message = f"{len(served)} kinds are watched; {len(numbered)} of them have a generation: "
    message += "it is checked, and their status is repaired"
    if unserved := sorted(resource for _, _, resource in watched - facts.served):
        message += f"; not served here: {few(unserved)}"
    if unwatched := [f"{one[1]}.{one[0]}" for one in facts.custom if one not in served]:
        message += f"; custom resources that are not watched: {few(unwatched)}"
    yield ok(message)


@check("nodes")
def nodes(facts: Facts) -> Iterator[Line]:
    """Say on which nodes kubelets write status.observedGeneration of pods."""
    if not facts.nodes:
        return
    by_text: defaultdict[str, list[str]] = defaultdict(list)
    for name, version in sorted(facts.nodes.items()):
        by_text[_doubt(version)].append(name)
    trusted = len(by_text.pop("", ()))
    parts = [f"observedGeneration of pods can be trusted on {trusted} of {len(facts.nodes)}"]
    parts += [text.format(few(names)) for text, names in by_text.items()]
    yield ok("; ".join(parts))


def _doubt(version: str) -> str:
    """Return what is said of nodes with a kubelet of this version; "" where all is well."""
    try:
        reached = parse_version(version)
    except UnknownServerVersionError:
        return _UNKNOWN
    return next((text for until, text in _UNTIL if reached < until), "")
