"""The checks of `genguard doctor`, in the order in which they are told: causes come first.

Each phase of a write is a call of its own. Where calls are spread over pods without a shared store,
one pod sees the intent and another the outcome, and neither can examine the write.
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
from genguard.admission.matching import Writes, read_configurations
from genguard.admission.review import Phase
from genguard.detection.finding import Severity, labels_of
from genguard.detection.mutators import Mutators
from genguard.generation.strategy import UnknownServerVersionError, parse_version
from genguard.linting.checks.order import order_genguard, registrations_reverted
from genguard.linting.hook import FOLLOWED, MUTATING
from genguard.linting.lint import lint
from genguard.needed_phases import needs_of
from genguard.objects.fields import items, mapping, text
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
    Told,
    calls_of,
    check,
    fail,
    ok,
    say,
    warn,
)
from webhook.install.plan import foreign, home_of, removal_commands
from webhook.manifest.documents import FOLLOW, STANDBY, arguments_of, mode_of, path_of, title_of
from webhook.manifest.rendering import PHASES, REGISTRATIONS, is_registration, store_of

_OLDEST: Final = (1, 30)
_SOON: Final = timedelta(days=30)
_LONGEST_SECONDS: Final = 5
_FEW_WRITES: Final = 100
_MOST_INCOMPLETE: Final = 0.01
_QUIET_SECONDS: Final = 3600
_FEW: Final = 3
_AFFINITY: Final = "ClientIP"
_LEFT_OUT: Final = ("kube-node-lease",)
"""kube-system is left out, too, but for `install --include-kube-system`."""
_COUNTS: Final = re.compile("([0-9]+)/([0-9]+)")
_SAME: Final = ("reinvocationPolicy", "matchPolicy", "sideEffects")
_STORES: Final = ("memory", "sqlite", "valkey")
_LOGGED: Final = {"valkey-lost": "store", "sqlite-corrupt": "'moved aside'"}
"""Stores that do not work, and a word of the line in the log about it."""
_UNTIL: Final = (((1, 33), "never"), ((1, 34), "gated"), ((1, 35), "ungated"))
"""What is said of nodes before a version."""


@check("api-server")
def api_server(facts: Facts) -> Iterator[Told]:
    """The API server is new enough for matchConditions and the preStop sleep action."""
    if parse_version(facts.version) < _OLDEST:
        yield fail("old")
    yield ok()


@check("api-server")
def unread(facts: Facts) -> Iterator[Told]:
    """The user may read all that is asked for."""
    for what, why in facts.unread.items():
        yield warn("unread", what=what, why=why)


@check("installed", Source.REGISTRATIONS, Source.OBJECTS)
def installed(facts: Facts) -> Iterator[Told]:
    """Every object of the manifests exists."""
    if facts.outside:
        return
    absent = (document for document in facts.expected if facts.live.get(path_of(document)) is None)
    if missing := [
        title_of(document)
        for document in absent  # the check of the certificate looks at the Secret
        if not is_registration(document) and document["kind"] != "Secret"
    ]:
        yield fail("missing", names=few(missing))
    yield ok()


@check("pods", Source.REGISTRATIONS, Source.DEPLOYMENT, Source.ENDPOINTS)
def pods(facts: Facts) -> Iterator[Told]:
    """Pods are ready; several share a store, or stand by; and the Service selects one."""
    deployment = facts.deployment
    if deployment is None:
        return
    wanted = mapping(deployment.get("spec")).get("replicas", 1)
    ready = mapping(deployment.get("status")).get("availableReplicas", 0)
    why = f": {facts.blocked}" if facts.blocked else ""
    if not wanted:
        yield fail("scaled")
    elif wanted > 1 and not store_of(deployment) and STANDBY not in arguments_of(deployment):
        yield fail("apart", wanted=wanted)
    elif not ready:
        yield fail("none", wanted=wanted, why=why)
    elif ready < wanted or why:
        yield warn("some", ready=ready, wanted=wanted, why=why)
    if ready and not facts.endpoints and facts.unready:
        # The API server keeps connections to a pod that only answers its readiness probe late.
        yield warn("slow") if facts.answers else fail("unready")
    elif ready and not facts.endpoints:
        yield fail("unselected")
    yield ok(ready=ready, wanted=wanted)


@check("certificate", Source.REGISTRATIONS, Source.PAIR)
def certificate(facts: Facts) -> Iterator[Told]:
    """The certificate has the right names, its key, and time left."""
    # A server outside the cluster renews the certificate that it has made; its key is not known.
    name, renewal = certs.service_names("genguard", facts.namespace)[0], ""
    if facts.outside:
        name, renewal = urlsplit(facts.outside).hostname or "", "genguard serve --cert-dir DIR"
    if facts.pair is None:
        if not facts.outside:
            yield fail("missing")
        return
    found = certs.inspect(facts.pair.cert_pem, facts.pair.key_pem, at=facts.at, names=(name,))
    for problem in found.problems:
        if facts.pair.key_pem or problem.part != "key":
            say = fail if problem.severity == "error" else warn
            yield say("problem", message=problem.message, renewal=renewal)
    ends = found.details.not_after if found.details else facts.at
    yield ok(ends=ends, name=name)


@check("registered", Source.REGISTRATIONS, Source.LEFTOVERS)
def registered(facts: Facts) -> Iterator[Told]:
    """All three are registered, and for the whole cluster."""
    if missing := [phase for phase in PHASES if phase not in facts.registered]:
        said = "none" if len(missing) == len(PHASES) else "some"
        yield fail(said, names=", ".join(missing))
    if facts.leftovers:
        names = ", ".join(str(leftover["metadata"]["name"]) for leftover in facts.leftovers)
        yield warn("left", names=names)
    yield ok()


@check("alone", Source.REGISTRATIONS)
def alone(facts: Facts) -> Iterator[Told]:
    """No other genguard is registered: both would repair and report the same writes."""
    others = foreign(facts.configurations, facts.namespace)
    taken = [
        other for other in others if (other["kind"], other["metadata"]["name"]) in REGISTRATIONS
    ]
    if taken:
        yield fail("taken", names=few(list(map(title_of, taken))), home=home_of(taken[0]))
    if more := [other for other in others if other not in taken]:
        names, removal = few(list(map(title_of, more))), removal_commands(more)
        yield warn("another", names=names, removal=removal)
    yield ok()


@check("rules", Source.REGISTRATIONS)
def rules(facts: Facts) -> Iterator[Told]:
    """Every resource and operation of the manifests is registered."""
    watched = set()
    for found in facts.registered.values():
        calls = calls_of(found.hook.body)
        watched |= {resource for _, _, resource, _ in calls}
        if lost := sorted(_wanted(found, facts) - calls):
            names = [f"{call[3]} {call[2]}.{call[0]}".rstrip(".") for call in lost]
            yield fail("lost", name=found.hook.configuration, calls=few(names))
        if any("*" in word for call in calls for word in call):
            yield warn("wildcard", name=found.hook.configuration)
    if facts.registered:
        yield ok("repaired" if facts.enforces else "well", count=len(watched))


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
        Mutators(read_configurations(facts.configurations)).may_change,
        enforcing=facts.deployment is not None and mode_of(facts.deployment) == "enforcing",
    )
    needed = {need.writes for need in needs if found.phase in need.phases}
    return {call for call in calls if Writes(call[0], call[2], call[3]) in needed}


@check("reverted", Source.REGISTRATIONS)
def reverted(facts: Facts) -> Iterator[Told]:
    """Nobody writes back the rules that the server keeps."""
    checks = (registrations_reverted,)
    for finding in lint(facts.configurations, at=facts.at, live=True, checks=checks):
        yield warn("reverted", name=finding.webhook.partition("/")[0], message=finding.message)
    is_followed = any(FOLLOWED in found.hook.annotations for found in facts.registered.values())
    if is_followed and facts.deployment and FOLLOW not in arguments_of(facts.deployment):
        yield fail("unkept", flag=FOLLOW)
    if is_followed or facts.registered:
        yield ok("followed" if is_followed else "fixed")


@check("settings", Source.REGISTRATIONS)
def settings(facts: Facts) -> Iterator[Told]:
    """No write fails or waits long while genguard is down."""
    for found in facts.registered.values():
        name, hook = found.hook.configuration, found.hook
        if hook.fails:
            yield fail("fails", name=name)
        if hook.timeout > _LONGEST_SECONDS:
            yield warn("waits", name=name, seconds=hook.timeout)
        yield from _selectors(found, facts)
        for field in _SAME:
            now, wanted = hook.body.get(field), found.expected.get(field)
            if now != wanted:
                yield warn(field, name=name, now=now, wanted=wanted)
    if facts.registered:
        yield ok()


def _selectors(found: Found, facts: Facts) -> Iterator[Told]:
    name, hook = found.hook.configuration, found.hook
    watched = [*filter(hook.selects_namespace, (*_LEFT_OUT, facts.namespace))]
    if watched:
        yield fail("watches", name=name, namespaces=", ".join(watched))
    if hook.selects_objects:
        yield warn("selects", name=name)
    conditions = {
        mapping(condition).get("name"): mapping(condition).get("expression")
        for condition in items(hook.body.get("matchConditions"))
    }
    for wanted in found.expected["matchConditions"]:
        condition = wanted["name"]
        if condition not in conditions:
            yield warn("unconditional", name=name, condition=condition)
        elif conditions[condition] != wanted["expression"]:
            yield warn("conditional", name=name, condition=condition)


@check("ca-bundle", Source.REGISTRATIONS, Source.PAIR)
def ca_bundle(facts: Facts) -> Iterator[Told]:
    """Every caBundle verifies the certificate in use, and will for 30 more days."""
    for found in facts.registered.values():
        bundle = text(mapping(found.hook.body.get("clientConfig")).get("caBundle"))
        name = found.hook.configuration
        if not bundle:
            yield fail("empty", name=name)
            continue
        try:
            trusted = read_certificates(base64.b64decode("".join(bundle.split()), validate=True))
        except (MalformedPEMError, binascii.Error, ValueError):
            yield fail("malformed", name=name)
            continue
        try:  # another check tells about a certificate that is broken or not known
            leaf, *between = read_certificates(facts.pair.cert_pem if facts.pair else b"")
            failure = explain_failure(leaf, between, trusted, facts.at)
        except MalformedPEMError:
            failure = None
        last = max(authority.not_valid_after_utc for authority in trusted)
        if last <= facts.at:
            yield fail("expired", name=name, last=last)
        elif failure:
            yield fail("unverified", name=name, failure=failure)
        elif last - facts.at < _SOON:
            yield warn("expires", name=name, last=last)
    if facts.registered:
        yield ok()


@check("order", Source.REGISTRATIONS)
def order(facts: Facts) -> Iterator[Told]:
    """No other mutating webhook runs before intent or after mutate."""
    # Observers of `genguard trace` sort outside on purpose, and change nothing.
    others = [
        configuration for configuration in facts.configurations if not is_observer(configuration)
    ]
    found = lint(others, at=facts.at, live=True, checks=(order_genguard,))
    problems = dict.fromkeys(
        (finding.webhook.partition("/")[0], finding.message) for finding in found
    )
    for name, message in problems:
        yield warn("outside", name=name, message=message)
    yield ok(count=sum(other["kind"] == MUTATING for other in others))


@check("reached", Source.REGISTRATIONS)
def reached(facts: Facts) -> Iterator[Told]:
    """Every phase saw a dry run: the only proof from end to end."""
    missing = ", ".join(phase for phase in facts.registered if phase not in facts.probe)
    said = next(iter(facts.probe.values()), {})
    if missing and facts.refusal:
        yield warn("refused", phases=missing)
    elif missing:
        yield fail("unseen", phases=missing)
    elif facts.registered and said.get("version") != __version__:
        yield warn("older", version=said.get("version"), own=__version__)
    if facts.registered:
        yield ok(mode=said.get("mode", ""))


@check("phases")
def phases(facts: Facts) -> Iterator[Told]:
    """All phases of one write reach the same pod, or pods that share a store."""
    asked, sent = facts.registered, len(facts.probes)
    complete = [probe for probe in facts.probes if all(phase in probe for phase in asked)]
    if not asked or not complete:
        return  # the check `reached` says why
    names = [{said.get("instance", "") for said in probe.values()} for probe in complete]
    unsplit = sum(len(name) == 1 for name in names)
    seen = {"unsplit": unsplit, "sent": sent}
    is_split = unsplit < len(complete)
    is_shared = all(answer.get("store") == "valkey" for answer in facts.answers)
    live = filter(None, facts.live.values())
    services = (document for document in live if document["kind"] == "Service")
    affinities = {
        service["metadata"]["name"]: str(
            mapping(service.get("spec")).get("sessionAffinity", "None")
        )
        for service in services
    }
    affinity = affinities.get("genguard", _AFFINITY)
    if is_split and not is_shared:
        repair = ""
        if facts.outside:
            repair = "genguard serve --store valkey://HOST/0"
        elif affinity == _AFFINITY:
            repair = f"{facts.kubectl} scale deployment/genguard --replicas=1"
        if facts.leaving:
            yield warn("leaving", names=few(facts.leaving), **seen)
        else:
            yield fail("split", repair=repair, **seen)
    elif len(complete) < sent:
        yield warn("missed", missed=sent - len(complete), **seen)
    if affinity != _AFFINITY:
        yield (warn if is_shared else fail)("affinity", affinity=affinity)
    yield ok("joined" if is_split else "well", **seen)


@check("mode", Source.DEPLOYMENT, Source.PODS)
def mode(facts: Facts) -> Iterator[Told]:
    """Every pod that answers runs in the mode of the Deployment."""
    modes = facts.said("mode")
    if facts.deployment is None or not modes:
        return
    wanted = mode_of(facts.deployment)
    if others := sorted(name for name, answered in modes.items() if answered != wanted):
        ends = set(others) <= set(facts.leaving)
        told = {"names": few(others), "mode": modes[others[0]], "wanted": wanted}
        yield warn("leaving", **told) if ends else fail("other", **told)
    yield ok(wanted=wanted)


@check("last-seen")
def last_seen(facts: Facts) -> Iterator[Told]:
    """A real write was seen within the last hour, by the replica that answered."""
    last = max((said.get("last", "") for said in facts.probe.values()), default="")
    if not last:
        return
    try:
        ago = int((facts.at - datetime.fromisoformat(last)).total_seconds())
    except ValueError:
        yield ok("none")
        return
    yield warn("quiet", ago=ago) if ago > _QUIET_SECONDS else ok(ago=max(ago, 0))


@check("store")
def store(facts: Facts) -> Iterator[Told]:
    """The store works."""
    for said in list(facts.probe.values())[:1]:
        kind = said.get("store", "unknown")
        if kind in _LOGGED:
            yield warn(kind, logs=facts.logs(_LOGGED[kind]))
        if active := said.get("active"):
            yield ok("standby", kind=kind, active=active)
        else:
            yield ok(kind if kind in _STORES else "other", kind=kind)


@check("tasks")
def tasks(facts: Facts) -> Iterator[Told]:
    """No task of a pod fails, by what the pods say."""
    failing = facts.said("failing")
    for name, those in sorted(failing.items()):
        if those != "none":
            yield warn("failing", tasks=those, name=name, logs=facts.logs("'task failed'"))
    if failing:
        yield ok()


@check("incomplete")
def incomplete(facts: Facts) -> Iterator[Told]:
    """Few writes missed a phase, by the counts of the pods: `incomplete/all`."""
    said = facts.said("incomplete").values()
    counts = [found.groups() for answer in said if (found := _COUNTS.fullmatch(answer))]
    if not counts:
        return
    lost, writes = (sum(map(int, column)) for column in zip(*counts, strict=True))
    if writes >= _FEW_WRITES and lost > writes * _MOST_INCOMPLETE:
        yield warn("many", lost=lost, writes=writes)
    yield ok(lost=lost, writes=writes)


@check("conditions")
def conditions(facts: Facts) -> Iterator[Told]:
    """The matchConditions of other webhooks can be evaluated, by the counts of the pods."""
    counts = [
        int(answer["costly"]) for answer in facts.answers if answer.get("costly", "").isdigit()
    ]
    if not counts:
        return
    if most := max(counts):
        yield warn("costly", most=most, logs=facts.logs("matchCondition"))
    yield ok()


@check("rights", Source.REGISTRATIONS, Source.RIGHTS)
def rights(facts: Facts) -> Iterator[Told]:
    """The server has the rights of the ClusterRole in the manifests."""
    if not facts.rights:
        return
    who, repair = "the server", ""
    if facts.outside:
        who, repair = "this kubeconfig's user", "genguard serve --kubeconfig FILE"
    if missing := [str(right) for right in facts.rights if not right.allowed]:
        yield fail("missing", who=who, names=few(missing), repair=repair)
    yield ok(who=who)


@check("nodes")
def nodes(facts: Facts) -> Iterator[Told]:
    """Say on which nodes kubelets write status.observedGeneration of pods."""
    if not facts.nodes:
        return
    doubted: defaultdict[str, list[str]] = defaultdict(list)
    for name, version in sorted(facts.nodes.items()):
        doubted[_untested_note(version)].append(name)
    trusted = len(doubted.pop("", ()))
    others = [f"; {say('nodes', said, names=few(names))[0]}" for said, names in doubted.items()]
    yield ok(trusted=trusted, all=len(facts.nodes), others="".join(others))


def _untested_note(version: str) -> str:
    """Return what is said of nodes with a kubelet of this version; "" where all is well."""
    try:
        reached = parse_version(version)
    except UnknownServerVersionError:
        return "unknown"
    return next((said for until, said in _UNTIL if reached < until), "")


@check("culprits")
def culprits(facts: Facts) -> Iterator[Told]:
    """No open finding names somebody who breaks objects; consequences of another are left out."""
    if facts.findings is None:
        yield Told(Level.UNKNOWN, "unasked", {})
        return
    known = {finding.id for finding in facts.findings}
    found = [
        finding
        for finding in facts.findings
        if finding.severity is not Severity.INFO and finding.above not in known
    ]
    for finding in found[:_FEW]:
        who = ", ".join(labels_of(finding.actors)[:_FEW]) or "not known who"
        told = {"message": finding.message, "count": finding.count, "id": finding.id}
        yield warn("found", who=who, about=finding.about, **told)
    if len(found) > _FEW:
        yield warn("more", more=len(found) - _FEW)
    yield ok()


CHECKS: Final = tuple(var for var in tuple(vars().values()) if isinstance(var, Check))
"""All of the above, in their order."""


def diagnose(facts: Facts) -> tuple[CheckResult, ...]:
    """Return the results of all checks, or of one if genguard is not installed."""
    if not facts.registered and not any(facts.live.values()) and not facts.unread:
        return (*api_server.results(facts), installed.result(facts, fail("absent")))
    return tuple(result for asked in CHECKS for result in asked.results(facts))
