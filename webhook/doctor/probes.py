"""Check what the pods answer to dry runs: which phases saw each, their version, mode and counts.

Each phase of a write is a call of its own. Where calls are spread over pods without a shared store,
one pod sees the intent and another the outcome, and neither can judge the write.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from genguard.detection.finding import Finding, Severity
from genguard.linting.hook import mapping
from genguard.objects.shown import few
from webhook import __version__
from webhook.doctor.facts import Facts, Level, Line, Source, check, fail, ok, warn
from webhook.manifest.documents import mode_of

_AFFINITY: Final = "ClientIP"
_FEW_WRITES: Final = 100
_MOST_INCOMPLETE: Final = 0.01
_QUIET_SECONDS: Final = 3600
_FEW: Final = 3
_STORES: Final = {
    "memory": "memory: each replica keeps its own state",
    "sqlite": "a file: findings survive a restart",
    "valkey": "shared by all replicas",
}
_LOST: Final = (
    "the shared store cannot be reached: each replica uses its own memory, and no loop is found "
    "until it is back"
)
_DAMAGED: Final = (
    "the file of findings was damaged when the server started: it was moved aside, and what was "
    "known before is missing"
)
_BAD_STORES: Final = {
    "valkey-lost": (_LOST, "store"),
    "sqlite-damaged": (_DAMAGED, "'moved aside'"),
}
"""What is wrong with a store, and a word of the line in the log about it."""
_COUNTS: Final = re.compile("([0-9]+)/([0-9]+)")
_FAIL_OPEN: Final = "kubectl get --raw /metrics | grep 'webhook_fail_open_count.*genguard'"


@check("reached", Source.REGISTRATIONS)
def reached(facts: Facts) -> Iterator[Line]:
    """Every phase saw a dry run: the only proof from end to end."""
    missing = ", ".join(phase for phase in facts.asked_phases if phase not in facts.probe)
    said = next((seen.facts for seen in facts.probe.values()), {})
    if missing and facts.refusal:
        message = f"not seen by {missing}: a dry run is refused: {facts.refusal}"
        yield warn(message, f"{facts.install} --dry-run")
    elif missing:
        message = f"a dry run passed without {missing} seeing it: genguard install finds out why"
        yield fail(message, facts.install)
    elif facts.asked_phases and said.get("version") != __version__:
        message = f"the server has version {said.get('version')}, this command {__version__}"
        yield warn(message, facts.install)
    if facts.asked_phases:
        yield ok(f"a dry run was seen in every phase, {said.get('mode', '')}")


@check("phases")
def phases(facts: Facts) -> Iterator[Line]:
    """All phases of one write reach the same pod, or pods that share a store."""
    asked, sent = facts.asked_phases, len(facts.probes)
    complete = [one for one in facts.probes if all(phase in one for phase in asked)]
    if not asked or not complete:
        return  # the check `reached` says why
    pods = [{seen.facts.get("instance", "") for seen in one.values()} for one in complete]
    whole = sum(len(names) == 1 for names in pods)
    message = f"{whole} of {sent} dry runs were seen in all phases by one pod"
    is_split = whole < len(complete)
    is_shared = all(answer.get("store") == "valkey" for answer in facts.answers)
    affinity = _affinity(facts)
    if is_split and not is_shared:
        yield _split(message, affinity, facts)
    elif len(complete) < sent:
        yield warn(f"{message}; {sent - len(complete)} missed a phase", _FAIL_OPEN)
    if affinity != _AFFINITY:
        instead = f"service/genguard has sessionAffinity {affinity} instead of {_AFFINITY}: "
        instead += "connections of one API server may reach different pods"
        yield (warn if is_shared else fail)(instead, facts.install)
    yield ok(f"{message}; the others were joined through the shared store" if is_split else message)


def _affinity(facts: Facts) -> str:
    """The sessionAffinity of the Service; that of the manifests if there is no Service."""
    for one in facts.live.values():
        if one and one["kind"] == "Service" and one["metadata"]["name"] == "genguard":
            return str(mapping(one.get("spec")).get("sessionAffinity", "None"))
    return _AFFINITY


def _split(message: str, affinity: str, facts: Facts) -> Line:
    if facts.leaving:
        repair = f"{facts.kubectl} rollout status deployment/genguard"
        return warn(f"{message}, while {few(facts.leaving)} terminates", repair)
    repair = facts.install
    if facts.outside:
        repair = "genguard serve --store valkey://HOST/0"
    elif affinity == _AFFINITY:
        repair = f"{facts.kubectl} scale deployment/genguard --replicas=1"
    return fail(f"{message}; the others were split over pods without a shared store", repair)


@check("mode", Source.DEPLOYMENT, Source.PODS)
def mode(facts: Facts) -> Iterator[Line]:
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
def last_seen(facts: Facts) -> Iterator[Line]:
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
def store(facts: Facts) -> Iterator[Line]:
    """The store works."""
    for seen in list(facts.probe.values())[:1]:
        kind = seen.facts.get("store", "unknown")
        if kind in _BAD_STORES:
            wrong, logged = _BAD_STORES[kind]
            yield warn(wrong, facts.logs(logged))
        if active := seen.facts.get("active"):
            yield ok(f"{kind}: pod {active} is active, and a standby goes on with what it saves")
        else:
            yield ok(_STORES.get(kind, kind))


@check("tasks")
def tasks(facts: Facts) -> Iterator[Line]:
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
def incomplete(facts: Facts) -> Iterator[Line]:
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
def conditions(facts: Facts) -> Iterator[Line]:
    """The matchConditions of other webhooks can be evaluated, by the counts of the pods."""
    counts = [int(one["costly"]) for one in facts.answers if one.get("costly", "").isdigit()]
    if not counts:
        return
    if most := max(counts):
        message = f"{most} matchConditions cost too much to evaluate, so their webhooks stay "
        message += "possible culprits of every write; the log quotes each condition"
        yield warn(message, facts.logs("matchCondition"))
    yield ok("every matchCondition could be evaluated within its limits")


@check("culprits")
def culprits(facts: Facts) -> Iterator[Line]:
    """No open finding names somebody who breaks objects; consequences of another are left out."""
    if facts.findings is None:
        message = f"the server was not asked whether findings are open: {facts.unasked}"
        yield Line(Level.UNKNOWN, message, "genguard doctor --server URL")
        return
    known = {one.id for one in facts.findings}
    found = [
        one
        for one in facts.findings
        if one.severity is not Severity.INFO and one.above not in known
    ]
    for one in found[:_FEW]:
        yield warn(_blamed(one), f"genguard explain finding/{one.id}")
    if len(found) > _FEW:
        yield warn(f"{len(found) - _FEW} more open findings", "genguard findings")
    yield ok("no finding of severity warning or critical is open")


def _blamed(one: Finding) -> str:
    who = ", ".join(actor.label for actor in one.actors[:_FEW]) or "not known who"
    return f"{one.about}: {who}: {one.message} ({one.count}x)"
