"""Check what the pods answer to dry runs: which phases saw each, their version, mode and counts.

Each phase of a write is a call of its own. Where calls are spread over pods without a shared store,
one pod sees the intent and another the outcome, and neither can judge the write.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final, NamedTuple

from genguard.admission.probe import Seen
from genguard.detection.finding import Finding, Severity
from genguard.linting.hook import mapping
from webhook import __version__
from webhook.doctor.facts import Facts
from webhook.doctor.result import CheckResult, Level, fail, few, results_or_ok, warn
from webhook.install.registering import is_limited
from webhook.manifest.documents import mode_of

_AFFINITY: Final = "ClientIP"
_SHARED: Final = "valkey"
_FEW_WRITES: Final = 100
_MOST_INCOMPLETE: Final = 0.01
_QUIET_SECONDS: Final = 3600
_SKEW_SECONDS: Final = 30
_FEW: Final = 3
_EXPLAIN: Final = "genguard explain finding/{}"
_STORES: Final = {
    "memory": "memory: each replica keeps its own state",
    "sqlite": "a file: findings survive a restart",
    "valkey": "shared by all replicas",
}


class _BadStore(NamedTuple):
    """What is wrong with a store, and a word of the line in the log about it."""

    what: str
    logged: str


_BAD_STORES: Final = {
    "valkey-lost": _BadStore(
        "the shared store cannot be reached: each replica uses its own memory until it is back",
        "store",
    ),
    "sqlite-damaged": _BadStore(
        "the file of findings was damaged when the server started: it was moved aside, and what "
        "was known before is missing",
        "'moved aside'",
    ),
}
_FAIL_OPEN: Final = "kubectl get --raw /metrics | grep 'webhook_fail_open_count.*genguard'"


def reached(facts: Facts) -> Iterator[CheckResult]:
    """Every phase saw a dry run: the only proof from end to end."""
    asked = [
        phase for phase, found in facts.registered.items() if not is_limited(found.registration)
    ]
    missing = [phase for phase in asked if phase not in facts.probe]
    seen = next(iter(facts.probe.values()), None)

    def problems() -> Iterator[CheckResult]:
        if missing and facts.refusal:
            message = f"not seen by {', '.join(missing)}: a dry run is refused: {facts.refusal}"
            yield warn("reached", message, f"{facts.install} --dry-run")
        elif missing:
            message = f"a dry run passed without {', '.join(missing)} seeing it"
            yield fail("reached", f"{message}: genguard install finds out why", facts.install)
        elif seen and seen.facts.get("version") != __version__:
            message = (
                f"the server has version {seen.facts.get('version')}, this command {__version__}"
            )
            yield warn("reached", message, facts.install)

    mode = seen.facts.get("mode", "") if seen else ""
    if asked:
        yield from results_or_ok(
            "reached", f"a dry run was seen in every phase, {mode}", problems()
        )


def phases(facts: Facts) -> Iterator[CheckResult]:
    """All phases of one write reach the same pod, or pods that share a store."""
    asked = [name for name, one in facts.registered.items() if not is_limited(one.registration)]
    complete = [one for one in facts.probes if all(phase in one for phase in asked)]
    if not asked or not complete:
        return  # the check `reached` says why
    whole = sum(len(_instances(one)) == 1 for one in complete)
    message = f"{whole} of {len(facts.probes)} dry runs were seen in all phases by one pod"

    def problems() -> Iterator[CheckResult]:
        if whole < len(complete) and not _is_shared(facts):
            yield _split(message, facts)
        elif len(complete) < len(facts.probes):
            missed = len(facts.probes) - len(complete)
            yield warn("phases", f"{message}; {missed} missed a phase", _FAIL_OPEN)
        yield from _affinity(facts)

    if _is_shared(facts) and whole < len(complete):
        message += "; the others were joined through the shared store"
    yield from results_or_ok("phases", message, problems())


def mode(facts: Facts) -> Iterator[CheckResult]:
    """Every pod that answers runs in the mode of the Deployment."""
    if facts.outside or facts.deployment is None:
        return
    wanted = mode_of(facts.deployment)
    answers = {
        answer.get("instance", "a pod"): answer["mode"]
        for answer in _answers(facts)
        if "mode" in answer
    }
    others = sorted(name for name, answered in answers.items() if answered != wanted)
    kubectl = f"kubectl -n {facts.namespace} rollout"

    def problems() -> Iterator[CheckResult]:
        if others:
            message = f"{few(others)} runs as {answers[others[0]]}, but {wanted} is deployed"
            if set(others) <= set(facts.leaving):
                yield warn(
                    "mode",
                    f"{message}, and terminates soon",
                    f"{kubectl} status deployment/genguard",
                )
            else:
                yield fail("mode", message, f"{kubectl} restart deployment/genguard")

    if answers:
        yield from results_or_ok(
            "mode", f"every pod that answers is {wanted}, as deployed", problems()
        )


def last_seen(facts: Facts) -> Iterator[CheckResult]:
    """A real write was seen within the last hour, by the replica that answered."""
    last = max((seen.facts.get("last", "") for seen in facts.probe.values()), default="")
    try:
        ago = int((facts.at - datetime.fromisoformat(last)).total_seconds())
    except ValueError:
        if last:
            message = "no write since this replica started"
            yield CheckResult(Level.OK, "last-seen", message)
        return
    message = f"the last write was seen {max(ago, 0)} s ago"
    results = [warn("last-seen", message, _FAIL_OPEN)] if ago > _QUIET_SECONDS else []
    yield from results_or_ok("last-seen", message, results)


def store(facts: Facts) -> Iterator[CheckResult]:
    """The store works."""
    for seen in list(facts.probe.values())[:1]:
        kind = seen.facts.get("store", "unknown")
        wrong = _BAD_STORES.get(kind)
        results = [warn("store", wrong.what, facts.logs(wrong.logged))] if wrong else []
        yield from results_or_ok("store", _STORES.get(kind, kind), results)


def incomplete(facts: Facts) -> Iterator[CheckResult]:
    """Few writes missed a phase, by the counts of the pods."""
    counts = {answer.get("instance", ""): _counts(answer) for answer in _answers(facts)}
    found = [one for one in counts.values() if one is not None]
    if not found:
        return
    lost, writes = (sum(column) for column in zip(*found, strict=True))
    message = f"{lost} of {writes} writes missed one of their phases"
    much = writes >= _FEW_WRITES and lost > writes * _MOST_INCOMPLETE
    results = [warn("incomplete", message, _FAIL_OPEN)] if much else []
    yield from results_or_ok("incomplete", message, results)


def conditions(facts: Facts) -> Iterator[CheckResult]:
    """The matchConditions of other webhooks can be evaluated, by the counts of the pods."""
    counts = [int(one["costly"]) for one in _answers(facts) if one.get("costly", "").isdigit()]
    if not counts:
        return
    message = "every matchCondition could be evaluated within its limits"
    results = []
    if most := max(counts):
        costly = (
            f"{most} matchConditions cost too much to evaluate, so their webhooks stay possible "
        )
        costly += "culprits of every write; the log quotes each condition"
        results = [warn("conditions", costly, facts.logs("matchCondition"))]
    yield from results_or_ok("conditions", message, results)


def tasks(facts: Facts) -> Iterator[CheckResult]:
    """No task of a pod fails, by what the pods say."""
    found = {answer.get("instance", ""): answer.get("failing") for answer in _answers(facts)}
    known = {name: told for name, told in found.items() if told is not None}
    if not known:
        return
    results = [
        warn(
            "tasks",
            f"{told} of {name} failed and was started again: what it does may be missing",
            facts.logs("'task failed'"),
        )
        for name, told in sorted(known.items())
        if told != "none"
    ]
    yield from results_or_ok("tasks", "no task of the server fails", results)


def clock(facts: Facts) -> Iterator[CheckResult]:
    """The clock here and the API server's agree: certificates and Leases depend on it."""
    message = (
        f"the clock here is {abs(facts.skew):.0f} s {'ahead of' if facts.skew > 0 else 'behind'} "
    )
    message += "the API server's"
    far = abs(facts.skew) > _SKEW_SECONDS
    results = [warn("clock", message, "sudo timedatectl set-ntp true")] if far else []
    return results_or_ok("clock", "the clock here and the API server's agree", results)


def culprits(facts: Facts) -> Iterator[CheckResult]:
    """No open finding names somebody who breaks objects; consequences of another are left out."""
    if facts.findings is None:
        message = f"the server was not asked whether findings are open: {facts.unasked}"
        yield CheckResult(Level.UNKNOWN, "culprits", message, "genguard doctor --server URL")
        return
    known = {one.id for one in facts.findings}
    found = [
        one
        for one in facts.findings
        if one.severity is not Severity.INFO and one.caused_by not in known
    ]
    results = [warn("culprits", _blamed(one), _EXPLAIN.format(one.id)) for one in found[:_FEW]]
    if len(found) > _FEW:
        more = f"{len(found) - _FEW} more open findings"
        results.append(warn("culprits", more, "genguard findings"))
    yield from results_or_ok("culprits", "no finding is open", results)


def _blamed(one: Finding) -> str:
    where = one.object
    place = "/".join(part for part in (where.namespace, where.name) if part)
    who = ", ".join(actor.told for actor in one.actors[:_FEW]) or "not known who"
    kind = f"{where.resource}.{where.group}".rstrip(".")
    return f"{kind} {place}: {who}: {one.message} ({one.count}x)"


def _split(message: str, facts: Facts) -> CheckResult:
    if facts.leaving:
        repair = f"kubectl -n {facts.namespace} rollout status deployment/genguard"
        return warn("phases", f"{message}, while {few(facts.leaving)} terminates", repair)
    if facts.outside:
        repair = "genguard serve --store valkey://HOST/0"
    elif (_service(facts) or _AFFINITY) == _AFFINITY:
        repair = f"kubectl -n {facts.namespace} scale deployment/genguard --replicas=1"
    else:
        repair = facts.install
    return fail(
        "phases", f"{message}; the others were split over pods without a shared store", repair
    )


def _affinity(facts: Facts) -> Iterator[CheckResult]:
    affinity = _service(facts)
    if affinity not in (None, _AFFINITY):
        message = f"service/genguard has sessionAffinity {affinity} instead of {_AFFINITY}: "
        message += "connections of one API server may reach different pods"
        yield (warn if _is_shared(facts) else fail)("phases", message, facts.install)


def _service(facts: Facts) -> str | None:
    """The sessionAffinity of the Service; None if there is no Service."""
    for one in facts.live.values():
        if one and one["kind"] == "Service" and one["metadata"]["name"] == "genguard":
            return str(mapping(one.get("spec")).get("sessionAffinity", "None"))
    return None


def _is_shared(facts: Facts) -> bool:
    return all(answer.get("store") == _SHARED for answer in _answers(facts))


def _instances(seen: Mapping[str, Seen]) -> set[str]:
    return {one.facts.get("instance", "") for one in seen.values()}


def _answers(facts: Facts) -> list[Mapping[str, str]]:
    """The facts in every answer of every probe."""
    return [seen.facts for probe in facts.probes for seen in probe.values()]


def _counts(answer: Mapping[str, str]) -> tuple[int, int] | None:
    """Incomplete writes and all writes of one pod; None if it reports none."""
    lost, slash, writes = answer.get("incomplete", "").partition("/")
    return (int(lost), int(writes)) if slash and lost.isdigit() and writes.isdigit() else None
