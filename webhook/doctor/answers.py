"""What the pods answer to several dry runs at once: who saw which phase, and in which mode it runs.

Each phase of a write is a connection of its own. Where connections are spread over pods that share
no store, one pod sees the intent and another the outcome, and neither can judge the write.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from webhook.admission.probe import Seen
from webhook.doctor.facts import Facts
from webhook.doctor.line import Line, fail, few, warn, well
from webhook.install.registering import is_limited
from webhook.lint.hook import mapping
from webhook.manifest.deployed import mode_of

_AFFINITY: Final = "ClientIP"
_SHARED: Final = "valkey"
_FEW_WRITES: Final = 100
_MOST_INCOMPLETE: Final = 0.01
_FAIL_OPEN: Final = "kubectl get --raw /metrics | grep 'webhook_fail_open_count.*genguard'"


def phases(facts: Facts) -> Iterator[Line]:
    """All phases of one write reach one pod, or pods that share a store."""
    asked = [name for name, one in facts.registered.items() if not is_limited(one.registration)]
    complete = [one for one in facts.probes if all(phase in one for phase in asked)]
    if not asked or not complete:
        return  # `reached` says why
    whole = sum(len(_instances(one)) == 1 for one in complete)
    told = f"{whole} of {len(facts.probes)} dry runs were seen whole by one pod"

    def look() -> Iterator[Line]:
        if whole < len(complete) and not _is_shared(facts):
            yield _split(told, facts)
        elif len(complete) < len(facts.probes):
            missed = len(facts.probes) - len(complete)
            yield warn("phases", f"{told}; {missed} were not seen in every phase", _FAIL_OPEN)
        yield from _affinity(facts)

    if _is_shared(facts) and whole < len(complete):
        told += "; the others were joined by the shared store"
    yield from well("phases", told, look())


def mode(facts: Facts) -> Iterator[Line]:
    """Every pod that answers runs in the mode that the Deployment says."""
    if facts.outside or facts.deployment is None:
        return
    wanted = mode_of(facts.deployment)
    answers = {
        told.get("instance", "a pod"): told["mode"] for told in _told(facts) if "mode" in told
    }
    others = sorted(name for name, answered in answers.items() if answered != wanted)
    kubectl = f"kubectl -n {facts.namespace} rollout"

    def look() -> Iterator[Line]:
        if others:
            message = f"{few(others)} answers as {answers[others[0]]}, and {wanted} is deployed"
            if set(others) <= set(facts.leaving):
                yield warn(
                    "mode",
                    f"{message}: it is about to end",
                    f"{kubectl} status deployment/genguard",
                )
            else:
                yield fail("mode", message, f"{kubectl} restart deployment/genguard")

    if answers:
        yield from well("mode", f"every pod that answers is {wanted}, as deployed", look())


def incomplete(facts: Facts) -> Iterator[Line]:
    """The share of writes of which a phase was never seen, as the pods have counted."""
    counts = {told.get("instance", ""): _counts(told) for told in _told(facts)}
    found = [one for one in counts.values() if one is not None]
    if not found:
        return
    lost, writes = (sum(column) for column in zip(*found, strict=True))
    message = f"{lost} of {writes} writes were judged without one of their phases"
    much = writes >= _FEW_WRITES and lost > writes * _MOST_INCOMPLETE
    lines = [warn("incomplete", message, _FAIL_OPEN)] if much else []
    yield from well("incomplete", message, lines)


def conditions(facts: Facts) -> Iterator[Line]:
    """Whether matchConditions of others can be evaluated, as the pods have counted."""
    told = [int(one["costly"]) for one in _told(facts) if one.get("costly", "").isdigit()]
    if not told:
        return
    message = "every matchCondition that was asked could be evaluated within its limits"
    lines = []
    if most := max(told):
        costly = f"{most} matchConditions cost too much to evaluate: their webhooks stay possible "
        costly += "culprits of writes for which they are not called; the log quotes each"
        lines = [warn("conditions", costly, facts.logs("matchCondition"))]
    yield from well("conditions", message, lines)


def _split(told: str, facts: Facts) -> Line:
    if facts.leaving:
        mend = f"kubectl -n {facts.namespace} rollout status deployment/genguard"
        return warn("phases", f"{told}, while {few(facts.leaving)} is about to end", mend)
    if facts.outside:
        mend = "genguard serve --store valkey://HOST/0"
    elif (_service(facts) or _AFFINITY) == _AFFINITY:
        mend = f"kubectl -n {facts.namespace} scale deployment/genguard --replicas=1"
    else:
        mend = facts.install
    return fail("phases", f"{told}: the others were split over pods that share no store", mend)


def _affinity(facts: Facts) -> Iterator[Line]:
    affinity = _service(facts)
    if affinity not in (None, _AFFINITY):
        message = f"service/genguard has sessionAffinity {affinity} instead of {_AFFINITY}: "
        message += "connections of one API server may reach different pods"
        yield (warn if _is_shared(facts) else fail)("phases", message, facts.install)


def _service(facts: Facts) -> str | None:
    """The sessionAffinity of the Service, None where there is no Service."""
    for one in facts.live.values():
        if one and one["kind"] == "Service" and one["metadata"]["name"] == "genguard":
            return str(mapping(one.get("spec")).get("sessionAffinity", "None"))
    return None


def _is_shared(facts: Facts) -> bool:
    return all(told.get("store") == _SHARED for told in _told(facts))


def _instances(seen: Mapping[str, Seen]) -> set[str]:
    return {one.facts.get("instance", "") for one in seen.values()}


def _told(facts: Facts) -> list[Mapping[str, str]]:
    """What was said in every answer."""
    return [seen.facts for probe in facts.probes for seen in probe.values()]


def _counts(told: Mapping[str, str]) -> tuple[int, int] | None:
    """Incomplete writes, and all writes, of one pod; None where it does not say."""
    lost, slash, writes = told.get("incomplete", "").partition("/")
    return (int(lost), int(writes)) if slash and lost.isdigit() and writes.isdigit() else None
