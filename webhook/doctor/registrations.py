"""Check that the registrations exist, cover the whole cluster, and block no write."""

from collections.abc import Iterator
from typing import Final

from genguard.admission.review import Phase
from genguard.detection.matching import Writes
from genguard.detection.suspects import Suspects, read_configurations
from genguard.linting.checks.reverted import registrations_reverted
from genguard.linting.hook import FOLLOWED, items, mapping
from genguard.linting.lint import lint
from genguard.needed_phases import needs_of
from genguard.objects.shown import few
from webhook.doctor.facts import Call, Facts, Found, Source, calls_of
from webhook.doctor.result import Line, check, fail, ok, warn
from webhook.install.registering import foreign, home_of, is_limited, removal_commands
from webhook.manifest.documents import FOLLOW, arguments_of, mode_of, title_of
from webhook.manifest.rendering import PHASES, REGISTRATIONS

_LONGEST_SECONDS: Final = 5
_SAME: Final = {
    "reinvocationPolicy": "so it may not see the changes of later webhooks",
    "matchPolicy": "so writes through another API version may be missed",
    "sideEffects": "so dry runs may fail",
}
_LEFT_OUT: Final = ("kube-system", "kube-node-lease")


@check("registered", Source.REGISTRATIONS, Source.LEFTOVERS)
def registered(facts: Facts) -> Iterator[Line]:
    """All three are registered, and for the whole cluster."""
    missing = [phase for phase in PHASES if phase not in facts.registered]
    if missing:
        what = "not registered" if len(missing) == len(PHASES) else "not all registered"
        yield fail(f"{what}: {', '.join(missing)} is missing", facts.install)
    limited = [one for one in facts.registered.values() if is_limited(one.registration)]
    for found in limited:
        message = f"{found.hook.configuration} covers only a trial namespace: "
        yield fail(f"{message}an installation was interrupted", facts.install)
    if facts.leftovers and not limited:
        names = ", ".join(str(one["metadata"]["name"]) for one in facts.leftovers)
        yield warn(f"left by an interrupted installation: {names}", facts.install)
    yield ok("intent, mutate and outcome, for the whole cluster")


@check("alone", Source.REGISTRATIONS)
def alone(facts: Facts) -> Iterator[Line]:
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
def rules(facts: Facts) -> Iterator[Line]:
    """Every resource and operation of the manifests is registered."""
    watched = set()
    for found in facts.registered.values():
        calls = calls_of(found.hook.body)
        watched |= {resource for _, _, resource, _ in calls}
        if lost := sorted(_wanted(found, facts) - calls):
            names = [f"{call[3]} {call[2]}.{call[0]}".rstrip(".") for call in lost]
            message = f"{found.hook.configuration} is not called for {few(names)}"
            yield fail(message, facts.install)
        if any("*" in word for call in calls for word in call):
            message = f"{found.hook.configuration} has a wildcard, which also matches Leases"
            yield warn(message, facts.install)
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
def reverted(facts: Facts) -> Iterator[Line]:
    """Nobody writes back the rules that the server keeps."""
    checks = (registrations_reverted,)
    for one in lint(facts.configurations, at=facts.at, live=True, checks=checks):
        name = one.webhook.partition("/")[0]
        yield warn(f"the rules of {name} {one.message}", f"{facts.install} --registrations fixed")
    is_followed = any(FOLLOWED in one.hook.annotations for one in facts.registered.values())
    if is_followed and facts.deployment and FOLLOW not in arguments_of(facts.deployment):
        message = f"phases are left out that the server does not add again: {FOLLOW} is gone"
        yield fail(message, facts.install)
    if is_followed:
        yield ok("the server registers only the phases that can show or repair something")
    elif facts.registered:
        yield ok("every phase is registered for all that is watched")


@check("settings", Source.REGISTRATIONS)
def settings(facts: Facts) -> Iterator[Line]:
    """No write fails or waits long while genguard is down."""
    for found in facts.registered.values():
        name, hook = found.hook.configuration, found.hook
        if hook.fails:
            message = f"{name} has failurePolicy Fail: writes fail while genguard is down"
            yield fail(message, facts.install)
        if hook.timeout > _LONGEST_SECONDS:
            message = f"{name} has timeoutSeconds {hook.timeout}: "
            yield warn(f"{message}a write may wait that many seconds", facts.install)
        yield from _selectors(found, facts)
        for field, why in _SAME.items():
            now, wanted = hook.body.get(field), found.expected.get(field)
            if now != wanted:
                yield warn(f"{name} has {field} {now} instead of {wanted}, {why}", facts.install)
    if facts.registered:
        yield ok("failurePolicy Ignore, short timeouts, kube-system excluded")


def _selectors(found: Found, facts: Facts) -> Iterator[Line]:
    name, hook = found.hook.configuration, found.hook
    watched = [one for one in (*_LEFT_OUT, facts.namespace) if hook.selects_namespace(one)]
    if watched and not is_limited(found.registration):
        message = f"{name} watches {', '.join(watched)}, which the cluster or genguard itself "
        yield fail(f"{message}depends on", facts.install)
    if hook.selects_objects:
        message = f"{name} has an objectSelector: a writer who sets labels can avoid it"
        yield warn(message, facts.install)
    conditions = {
        mapping(one).get("name"): mapping(one).get("expression")
        for one in items(hook.body.get("matchConditions"))
    }
    for wanted in found.expected["matchConditions"]:
        condition = wanted["name"]
        if condition not in conditions:
            message = f"{name} has lost the matchCondition {condition}: "
            yield warn(f"{message}genguard may wait for its own writes", facts.install)
        elif conditions[condition] != wanted["expression"]:
            message = f"{name} has a changed matchCondition {condition}, which protects the writes "
            yield warn(f"{message}of genguard itself", facts.install)
