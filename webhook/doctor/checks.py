"""The checks of `genguard doctor`, in the order in which they are told: causes come first.

Each phase of a write is a call of its own. Where calls are spread over pods without a shared store,
one pod sees the intent and another the outcome, and neither can judge the write.
"""

import base64
import binascii
import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import urlsplit

import certs
from certs.inspect import explain_failure
from certs.pem import MalformedPEMError, read_certificates
from genguard.admission.matching import Writes
from genguard.admission.review import Phase
from genguard.detection.finding import Severity
from genguard.detection.suspects import Suspects, read_configurations
from genguard.generation.strategy import UnknownServerVersionError, parse_version
from genguard.linting.checks.order import order_genguard, registrations_reverted
from genguard.linting.hook import FOLLOWED, MUTATING, items, mapping, text
from genguard.linting.lint import lint
from genguard.needed_phases import needs_of
from genguard.objects.shown import few
from genguard.trace.plan import is_observer
from webhook import __version__
from webhook.doctor.facts import (
    Call,
    Check,
    CheckResult,
    Facts,
    Found,
    Level,
    Source,
    calls_of,
    check,
    fail,
    ok,
    warn,
)
from webhook.install.plan import foreign, home_of, removal_commands
from webhook.manifest.documents import (
    FOLLOW,
    STANDBY,
    arguments_of,
    mode_of,
    path_of,
    title_of,
)
from webhook.manifest.rendering import PHASES, REGISTRATIONS, is_registration, store_of

_OLDEST: Final = (1, 30)
_SOON: Final = timedelta(days=30)
_LONGEST_SECONDS: Final = 5
_FEW_WRITES: Final = 100
_MOST_INCOMPLETE: Final = 0.01
_QUIET_SECONDS: Final = 3600
_FEW: Final = 3
_AFFINITY: Final = "ClientIP"
_LEFT_OUT: Final = ("kube-system", "kube-node-lease")
_COUNTS: Final = re.compile("([0-9]+)/([0-9]+)")
_FAIL_OPEN: Final = "kubectl get --raw /metrics | grep 'webhook_fail_open_count.*genguard'"
_SAME: Final = {
    "reinvocationPolicy": "so it may not see the changes of later webhooks",
    "matchPolicy": "so writes through another API version may be missed",
    "sideEffects": "so dry runs may fail",
}
_STORES: Final = {
    "memory": "memory: each replica keeps its own state",
    "sqlite": "a file: findings survive a restart",
    "valkey": "shared by all replicas",
}
_BAD_STORES: Final = {
    "valkey-lost": "the shared store cannot be reached: each replica uses its own memory, and no "
    "loop is found until it is back",
    "sqlite-damaged": "the file of findings was damaged when the server started: it was moved "
    "aside, and what was known before is missing",
}
_LOGGED: Final = {"valkey-lost": "store", "sqlite-damaged": "'moved aside'"}
"""A word of the line in the log about it."""
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
def api_server(facts: Facts) -> Iterator[CheckResult]:
    """The API server is new enough for matchConditions and the preStop sleep action."""
    if parse_version(facts.version) < _OLDEST:
        message = f"Kubernetes {facts.version} is too old: 1.30 or newer is needed"
        yield fail(message, "kubectl version")
    yield ok(f"Kubernetes {facts.version}")


@check("api-server")
def unread(facts: Facts) -> Iterator[CheckResult]:
    """The user may read all that is asked for."""
    for what, why in facts.unread.items():
        yield warn(f"{what} could not be read: {why}", "kubectl auth whoami")


@check("installed", Source.REGISTRATIONS, Source.OBJECTS)
def installed(facts: Facts) -> Iterator[CheckResult]:
    """Every object of the manifests exists."""
    if facts.outside:
        return
    # The check of the certificate looks at the Secret.
    wanted = [one for one in facts.expected if not is_registration(one) and one["kind"] != "Secret"]
    if missing := [title_of(one) for one in wanted if facts.live.get(path_of(one)) is None]:
        yield fail(f"missing: {few(missing)}")
    yield ok(f"every object in namespace {facts.namespace} exists")


@check("pods", Source.REGISTRATIONS, Source.DEPLOYMENT, Source.ENDPOINTS)
def pods(facts: Facts) -> Iterator[CheckResult]:
    """Pods are ready; several share a store, or stand by; and the Service selects one."""
    deployment = facts.deployment
    if deployment is None:
        return
    wanted = mapping(deployment.get("spec")).get("replicas", 1)
    ready = mapping(deployment.get("status")).get("availableReplicas", 0)
    describe = f"{facts.kubectl} describe pods"
    if not wanted:
        scale = f"{facts.kubectl} scale deployment/genguard --replicas={facts.replicas}"
        yield fail("scaled to 0: each write waits for a server that does not run", scale)
    elif wanted > 1 and not store_of(deployment) and STANDBY not in arguments_of(deployment):
        yield fail(
            f"{wanted} replicas that all answer, without a shared store: each sees only parts of a "
            "write. genguard install makes one active and has the others stand by"
        )
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
        yield fail("ready, but the Service has no endpoint")
    yield ok(f"{ready} of {wanted} are ready, and the Service has endpoints")


@check("certificate", Source.REGISTRATIONS, Source.PAIR)
def certificate(facts: Facts) -> Iterator[CheckResult]:
    """The certificate has the right names, its key, and time left."""
    # A server outside the cluster renews the certificate that it has made; its key is not known.
    name, renewal = certs.service_names("genguard", facts.namespace)[0], ""
    if facts.outside:
        name, renewal = urlsplit(facts.outside).hostname or "", "genguard serve --cert-dir DIR"
    if facts.pair is None:
        if not facts.outside:
            yield fail("the Secret with the certificate is missing")
        return
    found = certs.inspect(facts.pair.cert_pem, facts.pair.key_pem, at=facts.at, names=(name,))
    for one in found.problems:
        if facts.pair.key_pem or one.part != "key":
            yield (fail if one.severity == "error" else warn)(one.message, renewal)
    ends = found.facts.not_after if found.facts else facts.at
    yield ok(f"valid until {ends:%FT%TZ}, for {name}")


@check("registered", Source.REGISTRATIONS, Source.LEFTOVERS)
def registered(facts: Facts) -> Iterator[CheckResult]:
    """All three are registered, and for the whole cluster."""
    if missing := [phase for phase in PHASES if phase not in facts.registered]:
        what = "not registered" if len(missing) == len(PHASES) else "not all registered"
        yield fail(f"{what}: {', '.join(missing)} is missing")
    if facts.leftovers:
        names = ", ".join(str(one["metadata"]["name"]) for one in facts.leftovers)
        yield warn(f"left by an interrupted installation: {names}")
    yield ok("intent, mutate and outcome, for the whole cluster")


@check("alone", Source.REGISTRATIONS)
def alone(facts: Facts) -> Iterator[CheckResult]:
    """No other genguard is registered: both would repair and report the same writes."""
    others = foreign(facts.configurations, facts.namespace)
    taken = [one for one in others if (one["kind"], one["metadata"]["name"]) in REGISTRATIONS]
    if taken:
        home = home_of(taken[0])
        message = f"{few([title_of(one) for one in taken])} calls the genguard in namespace {home}"
        yield fail(f"{message}, not the one in {facts.namespace}", f"genguard doctor -n {home}")
    if more := [one for one in others if one not in taken]:
        message = f"another genguard is registered: {few([title_of(one) for one in more])}; "
        yield warn(f"{message}both repair and report the same writes", removal_commands(more))
    yield ok("no other genguard is registered")


@check("rules", Source.REGISTRATIONS)
def rules(facts: Facts) -> Iterator[CheckResult]:
    """Every resource and operation of the manifests is registered."""
    watched = set()
    for found in facts.registered.values():
        calls = calls_of(found.hook.body)
        watched |= {resource for _, _, resource, _ in calls}
        if lost := sorted(_wanted(found, facts) - calls):
            names = [f"{call[3]} {call[2]}.{call[0]}".rstrip(".") for call in lost]
            yield fail(f"{found.hook.configuration} is not called for {few(names)}")
        if any("*" in word for call in calls for word in call):
            yield warn(f"{found.hook.configuration} has a wildcard, which also matches Leases")
    if facts.registered:
        yield ok(f"{len(watched)} resources and subresources are watched")


def _wanted(found: Found, facts: Facts) -> set[Call]:
    """Return what a phase must be called for: all, or what is needed where the server follows it.

    Policies are not read here, so more may be registered than this says.
    """
    calls = calls_of(found.expected)
    outcome = facts.registered.get(Phase.OUTCOME)
    if FOLLOWED not in found.hook.annotations or outcome is None:
        return calls
    needs = needs_of(
        items(outcome.hook.body.get("rules")),
        Suspects(read_configurations(facts.configurations)).may_change,
        enforcing=facts.deployment is not None and mode_of(facts.deployment) == "enforcing",
    )
    needed = {one.writes for one in needs if found.phase in one.phases}
    return {one for one in calls if Writes(one[0], one[2], one[3]) in needed}


@check("reverted", Source.REGISTRATIONS)
def reverted(facts: Facts) -> Iterator[CheckResult]:
    """Nobody writes back the rules that the server keeps."""
    checks = (registrations_reverted,)
    for one in lint(facts.configurations, at=facts.at, live=True, checks=checks):
        name = one.webhook.partition("/")[0]
        yield warn(f"the rules of {name} {one.message}", f"{facts.install} --registrations fixed")
    is_followed = any(FOLLOWED in one.hook.annotations for one in facts.registered.values())
    if is_followed and facts.deployment and FOLLOW not in arguments_of(facts.deployment):
        yield fail(f"phases are left out that the server does not add again: {FOLLOW} is gone")
    if is_followed:
        yield ok("the server registers only the phases that can show or repair something")
    elif facts.registered:
        yield ok("every phase is registered for all that is watched")


@check("settings", Source.REGISTRATIONS)
def settings(facts: Facts) -> Iterator[CheckResult]:
    """No write fails or waits long while genguard is down."""
    for found in facts.registered.values():
        name, hook = found.hook.configuration, found.hook
        if hook.fails:
            yield fail(f"{name} has failurePolicy Fail: writes fail while genguard is down")
        if hook.timeout > _LONGEST_SECONDS:
            yield warn(f"{name} has timeoutSeconds {hook.timeout}: a write may wait so long")
        yield from _selectors(found, facts)
        for field, why in _SAME.items():
            now, wanted = hook.body.get(field), found.expected.get(field)
            if now != wanted:
                yield warn(f"{name} has {field} {now} instead of {wanted}, {why}")
    if facts.registered:
        yield ok("failurePolicy Ignore, short timeouts, kube-system excluded")


def _selectors(found: Found, facts: Facts) -> Iterator[CheckResult]:
    name, hook = found.hook.configuration, found.hook
    watched = [one for one in (*_LEFT_OUT, facts.namespace) if hook.selects_namespace(one)]
    if watched:
        message = f"{name} watches {', '.join(watched)}, which the cluster or genguard itself "
        yield fail(f"{message}depends on")
    if hook.selects_objects:
        yield warn(f"{name} has an objectSelector: a writer who sets labels can avoid it")
    conditions = {
        mapping(one).get("name"): mapping(one).get("expression")
        for one in items(hook.body.get("matchConditions"))
    }
    for wanted in found.expected["matchConditions"]:
        condition = wanted["name"]
        if condition not in conditions:
            message = f"{name} has lost the matchCondition {condition}: "
            yield warn(f"{message}genguard may wait for its own writes")
        elif conditions[condition] != wanted["expression"]:
            message = f"{name} has a changed matchCondition {condition}, which protects the writes "
            yield warn(f"{message}of genguard itself")


@check("ca-bundle", Source.REGISTRATIONS, Source.PAIR)
def ca_bundle(facts: Facts) -> Iterator[CheckResult]:
    """Every caBundle verifies the certificate in use, and will for 30 more days."""
    for found in facts.registered.values():
        bundle = text(mapping(found.hook.body.get("clientConfig")).get("caBundle"))
        name = f"the caBundle of {found.hook.configuration}"
        if not bundle:
            yield fail(f"{name} is empty, so the API server trusts no certificate")
            continue
        try:
            trusted = read_certificates(base64.b64decode("".join(bundle.split()), validate=True))
        except (MalformedPEMError, binascii.Error, ValueError):
            yield fail(f"{name} is not base64 of PEM certificates")
            continue
        try:  # of a certificate that is not known, or broken, another check tells
            leaf, *between = read_certificates(facts.pair.cert_pem if facts.pair else b"")
            failure = explain_failure(leaf, between, trusted, facts.at)
        except MalformedPEMError:
            failure = None
        last = max(one.not_valid_after_utc for one in trusted)
        if last <= facts.at:
            yield fail(f"{name} expired at {last:%FT%TZ}")
        elif failure:
            yield fail(f"{name} does not verify the server's certificate: {failure}")
        elif last - facts.at < _SOON:
            yield warn(f"{name} expires at {last:%FT%TZ}")
    if facts.registered:
        yield ok("the API server trusts the server's certificate")


@check("order", Source.REGISTRATIONS)
def order(facts: Facts) -> Iterator[CheckResult]:
    """No other mutating webhook runs before intent or after mutate."""
    # Observers of `genguard trace` sort outside on purpose, and change nothing.
    others = [one for one in facts.configurations if not is_observer(one)]
    found = lint(others, at=facts.at, live=True, checks=(order_genguard,))
    problems = dict.fromkeys((one.webhook.partition("/")[0], one.message) for one in found)
    for name, message in problems:
        # Renames it. Its owner may create the old name again.
        get = f"kubectl get mutatingwebhookconfiguration {name} -o yaml"
        edit = f"sed '/^  \\(uid\\|resourceVersion\\):/d; s/^  name: {name}$/  name: m-{name}/'"
        delete = f"kubectl delete mutatingwebhookconfiguration {name}"
        yield warn(f"{name} {message}", f"{get} | {edit} | kubectl create -f - && {delete}")
    count = sum(one["kind"] == MUTATING for one in others)
    message = f"first and last of {count} mutating configurations; those in files of the API server"
    yield ok(f"{message} cannot be checked")


@check("reached", Source.REGISTRATIONS)
def reached(facts: Facts) -> Iterator[CheckResult]:
    """Every phase saw a dry run: the only proof from end to end."""
    missing = ", ".join(phase for phase in facts.registered if phase not in facts.probe)
    said = next((seen.facts for seen in facts.probe.values()), {})
    if missing and facts.refusal:
        message = f"not seen by {missing}: a dry run is refused: {facts.refusal}"
        yield warn(message, f"{facts.install} --dry-run")
    elif missing:
        yield fail(f"a dry run passed without {missing} seeing it: genguard install finds out why")
    elif facts.registered and said.get("version") != __version__:
        yield warn(f"the server has version {said.get('version')}, this command {__version__}")
    if facts.registered:
        yield ok(f"a dry run was seen in every phase, {said.get('mode', '')}")


@check("phases")
def phases(facts: Facts) -> Iterator[CheckResult]:
    """All phases of one write reach the same pod, or pods that share a store."""
    asked, sent = facts.registered, len(facts.probes)
    complete = [one for one in facts.probes if all(phase in one for phase in asked)]
    if not asked or not complete:
        return  # the check `reached` says why
    names = [{seen.facts.get("instance", "") for seen in one.values()} for one in complete]
    whole = sum(len(one) == 1 for one in names)
    message = f"{whole} of {sent} dry runs were seen in all phases by one pod"
    is_split = whole < len(complete)
    is_shared = all(answer.get("store") == "valkey" for answer in facts.answers)
    services = (one for one in facts.live.values() if one and one["kind"] == "Service")
    affinities = {
        one["metadata"]["name"]: str(mapping(one.get("spec")).get("sessionAffinity", "None"))
        for one in services
    }
    affinity = affinities.get("genguard", _AFFINITY)
    if is_split and not is_shared:
        yield _split(message, affinity, facts)
    elif len(complete) < sent:
        yield warn(f"{message}; {sent - len(complete)} missed a phase", _FAIL_OPEN)
    if affinity != _AFFINITY:
        instead = f"service/genguard has sessionAffinity {affinity} instead of {_AFFINITY}: "
        instead += "connections of one API server may reach different pods"
        yield (warn if is_shared else fail)(instead)
    yield ok(f"{message}; the others were joined through the shared store" if is_split else message)


def _split(message: str, affinity: str, facts: Facts) -> CheckResult:
    if facts.leaving:
        repair = f"{facts.kubectl} rollout status deployment/genguard"
        return warn(f"{message}, while {few(facts.leaving)} terminates", repair)
    repair = ""
    if facts.outside:
        repair = "genguard serve --store valkey://HOST/0"
    elif affinity == _AFFINITY:
        repair = f"{facts.kubectl} scale deployment/genguard --replicas=1"
    return fail(f"{message}; the others were split over pods without a shared store", repair)


@check("mode", Source.DEPLOYMENT, Source.PODS)
def mode(facts: Facts) -> Iterator[CheckResult]:
    """Every pod that answers runs in the mode of the Deployment."""
    modes = {
        answer.get("instance", "a pod"): answer["mode"]
        for answer in facts.answers
        if "mode" in answer
    }
    if facts.deployment is None or not modes:
        return
    wanted = mode_of(facts.deployment)
    if others := sorted(name for name, answered in modes.items() if answered != wanted):
        message = f"{few(others)} runs as {modes[others[0]]}, but {wanted} is deployed"
        rollout = f"{facts.kubectl} rollout"
        if set(others) <= set(facts.leaving):
            message = f"{message}, and terminates soon"
            yield warn(message, f"{rollout} status deployment/genguard")
        else:
            yield fail(message, f"{rollout} restart deployment/genguard")
    yield ok(f"every pod that answers is {wanted}, as deployed")


@check("last-seen")
def last_seen(facts: Facts) -> Iterator[CheckResult]:
    """A real write was seen within the last hour, by the replica that answered."""
    last = max((seen.facts.get("last", "") for seen in facts.probe.values()), default="")
    if not last:
        return
    try:
        ago = int((facts.at - datetime.fromisoformat(last)).total_seconds())
    except ValueError:
        yield ok("no write since this replica started")
        return
    message = f"the last write was seen {max(ago, 0)} s ago"
    yield warn(message, _FAIL_OPEN) if ago > _QUIET_SECONDS else ok(message)


@check("store")
def store(facts: Facts) -> Iterator[CheckResult]:
    """The store works."""
    for seen in list(facts.probe.values())[:1]:
        kind = seen.facts.get("store", "unknown")
        if kind in _BAD_STORES:
            yield warn(_BAD_STORES[kind], facts.logs(_LOGGED[kind]))
        if active := seen.facts.get("active"):
            yield ok(f"{kind}: pod {active} is active, and a standby goes on with what it saves")
        else:
            yield ok(_STORES.get(kind, kind))


@check("tasks")
def tasks(facts: Facts) -> Iterator[CheckResult]:
    """No task of a pod fails, by what the pods say."""
    failing = {
        answer.get("instance", ""): answer["failing"]
        for answer in facts.answers
        if "failing" in answer
    }
    for name, those in sorted(failing.items()):
        if those != "none":
            message = f"{those} of {name} failed and was started again: "
            yield warn(f"{message}what it does may be missing", facts.logs("'task failed'"))
    if failing:
        yield ok("no task of the server fails")


@check("incomplete")
def incomplete(facts: Facts) -> Iterator[CheckResult]:
    """Few writes missed a phase, by the counts of the pods: `incomplete/all`."""
    said = {answer.get("instance", ""): answer.get("incomplete", "") for answer in facts.answers}
    counts = [found.groups() for one in said.values() if (found := _COUNTS.fullmatch(one))]
    if not counts:
        return
    lost, writes = (sum(map(int, column)) for column in zip(*counts, strict=True))
    message = f"{lost} of {writes} writes missed one of their phases"
    if writes >= _FEW_WRITES and lost > writes * _MOST_INCOMPLETE:
        yield warn(message, _FAIL_OPEN)
    yield ok(message)


@check("conditions")
def conditions(facts: Facts) -> Iterator[CheckResult]:
    """The matchConditions of other webhooks can be evaluated, by the counts of the pods."""
    counts = [int(one["costly"]) for one in facts.answers if one.get("costly", "").isdigit()]
    if not counts:
        return
    if most := max(counts):
        message = f"{most} matchConditions cost too much to evaluate, so their webhooks stay "
        message += "possible culprits of every write; the log quotes each condition"
        yield warn(message, facts.logs("matchCondition"))
    yield ok("every matchCondition could be evaluated within its limits")


@check("rights", Source.REGISTRATIONS, Source.RIGHTS)
def rights(facts: Facts) -> Iterator[CheckResult]:
    """The server has the rights of the ClusterRole in the manifests."""
    if not facts.rights:
        return
    who, repair = "the server", ""
    if facts.outside:
        who, repair = "this kubeconfig's user", "genguard serve --kubeconfig FILE"
    if missing := [str(right) for right in facts.rights if not right.allowed]:
        yield fail(f"{who} may not {few(missing)}", repair)
    yield ok(f"{who} has every right that it needs")


@check("nodes")
def nodes(facts: Facts) -> Iterator[CheckResult]:
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


@check("culprits")
def culprits(facts: Facts) -> Iterator[CheckResult]:
    """No open finding names somebody who breaks objects; consequences of another are left out."""
    if facts.findings is None:
        message = f"the server was not asked whether findings are open: {facts.unasked}"
        yield CheckResult(Level.UNKNOWN, "", message, "genguard doctor --server URL")
        return
    known = {one.id for one in facts.findings}
    found = [
        one
        for one in facts.findings
        if one.severity is not Severity.INFO and one.above not in known
    ]
    for one in found[:_FEW]:
        who = ", ".join(actor.label for actor in one.actors[:_FEW]) or "not known who"
        message = f"{one.about}: {who}: {one.message} ({one.count}x)"
        yield warn(message, f"genguard explain finding/{one.id}")
    if len(found) > _FEW:
        yield warn(f"{len(found) - _FEW} more open findings", "genguard findings")
    yield ok("no finding of severity warning or critical is open")


CHECKS: Final = tuple(one for one in tuple(vars().values()) if isinstance(one, Check))
"""All of the above, in their order."""


def diagnose(facts: Facts) -> tuple[CheckResult, ...]:
    """Return the results of all checks, or of one if genguard is not installed."""
    if not facts.registered and not any(facts.live.values()) and not facts.unread:
        message = "genguard is not installed in this cluster"
        absent = CheckResult(Level.FAIL, installed.id, message, facts.install)
        return (*api_server.results(facts), absent)
    return tuple(result for one in CHECKS for result in one.results(facts))
