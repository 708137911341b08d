"""Check that the registrations exist, cover the whole cluster, and block no write."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from genguard.linting.hook import items, mapping, texts
from webhook.doctor.facts import Facts, Found
from webhook.doctor.result import CheckResult, fail, few, results_or_ok, warn
from webhook.install.registering import (
    foreign,
    home_of,
    is_limited,
    removal_commands,
)
from webhook.manifest.documents import title_of
from webhook.manifest.rendering import PHASES, REGISTRATIONS

_LONGEST_SECONDS: Final = 5
_SAME: Final = {
    "reinvocationPolicy": "so it may not see the changes of later webhooks",
    "matchPolicy": "so writes through another API version may be missed",
    "sideEffects": "so dry runs may fail",
}
_LEFT_OUT: Final = ("kube-system", "kube-node-lease")


def registered(facts: Facts) -> Iterator[CheckResult]:
    """All three are registered, and for the whole cluster."""

    def problems() -> Iterator[CheckResult]:
        missing = [phase for phase in PHASES if phase not in facts.registered]
        if missing:
            message = "not registered" if len(missing) == len(PHASES) else "not all registered"
            yield fail("registered", f"{message}: {', '.join(missing)} is missing", facts.install)
        for found in facts.registered.values():
            if is_limited(found.registration):
                message = f"{found.hook.configuration} covers only a trial namespace: "
                message += "an installation was interrupted"
                yield fail("registered", message, facts.install)
        if facts.leftovers and not facts.is_partial:
            names = ", ".join(str(one["metadata"]["name"]) for one in facts.leftovers)
            yield warn("registered", f"left by an interrupted installation: {names}", facts.install)

    return results_or_ok(
        "registered", "intent, mutate and outcome, for the whole cluster", problems()
    )


def alone(facts: Facts) -> Iterator[CheckResult]:
    """No other genguard is registered: both would repair and report the same writes."""

    def problems() -> Iterator[CheckResult]:
        others = foreign(facts.configurations, facts.namespace)
        taken = [one for one in others if (one["kind"], one["metadata"]["name"]) in REGISTRATIONS]
        if taken:
            home = home_of(taken[0])
            message = (
                f"{few([title_of(one) for one in taken])} calls the genguard in namespace {home}"
            )
            yield fail(
                "alone",
                f"{message}, not the one in {facts.namespace}",
                f"genguard doctor -n {home}",
            )
        if more := [one for one in others if one not in taken]:
            message = f"another genguard is registered: {few([title_of(one) for one in more])}; "
            yield warn(
                "alone", f"{message}both repair and report the same writes", removal_commands(more)
            )

    return results_or_ok("alone", "no other genguard is registered", problems())


def rules(facts: Facts) -> Iterator[CheckResult]:
    """Every resource and operation of the manifests is registered."""

    def problems() -> Iterator[CheckResult]:
        for found in facts.registered.values():
            lost = sorted(_calls(found.expected) - _calls(found.hook.body))
            if lost:
                message = f"{found.hook.configuration} is not called for "
                yield fail("rules", message + few([_name(one) for one in lost]), facts.install)
            if any("*" in word for one in _calls(found.hook.body) for word in one):
                message = f"{found.hook.configuration} has a wildcard, which also matches Leases"
                yield warn("rules", message, facts.install)

    if not facts.registered:
        return
    count = len({one[2] for found in facts.registered.values() for one in _calls(found.hook.body)})
    yield from results_or_ok("rules", f"{count} resources and subresources are watched", problems())


def settings(facts: Facts) -> Iterator[CheckResult]:
    """No write fails or waits long while genguard is down."""

    def problems() -> Iterator[CheckResult]:
        for found in facts.registered.values():
            name, hook = found.hook.configuration, found.hook
            if hook.fails:
                message = f"{name} has failurePolicy Fail: writes fail while genguard is down"
                yield fail("settings", message, facts.install)
            if hook.timeout > _LONGEST_SECONDS:
                message = (
                    f"{name} has timeoutSeconds {hook.timeout}: a write may wait that many seconds"
                )
                yield warn("settings", message, facts.install)
            yield from _selectors(found, facts)
            for field, why in _SAME.items():
                now, wanted = hook.body.get(field), found.expected.get(field)
                if now != wanted:
                    message = f"{name} has {field} {now} instead of {wanted}, {why}"
                    yield warn("settings", message, facts.install)

    if facts.registered:
        yield from results_or_ok(
            "settings", "failurePolicy Ignore, short timeouts, kube-system excluded", problems()
        )


def _selectors(found: Found, facts: Facts) -> Iterator[CheckResult]:
    name, hook = found.hook.configuration, found.hook
    if not is_limited(found.registration):
        seen = [one for one in (*_LEFT_OUT, facts.namespace) if hook.selects_namespace(one)]
        if seen:
            message = (
                f"{name} watches {', '.join(seen)}, which the cluster or genguard itself depends on"
            )
            yield fail("settings", message, facts.install)
    if hook.selects_objects:
        message = f"{name} has an objectSelector: a writer who sets labels can avoid it"
        yield warn("settings", message, facts.install)
    conditions = {
        mapping(one).get("name"): mapping(one).get("expression")
        for one in items(hook.body.get("matchConditions"))
    }
    for wanted in found.expected["matchConditions"]:
        condition = wanted["name"]
        if condition not in conditions:
            message = f"{name} has lost the matchCondition {condition}: "
            message += "genguard may wait for its own writes"
            yield warn("settings", message, facts.install)
        elif conditions[condition] != wanted["expression"]:
            message = f"{name} has a changed matchCondition {condition}, which protects the writes "
            yield warn("settings", f"{message}of genguard itself", facts.install)


def _calls(webhook: Mapping[str, Any]) -> set[tuple[str, str, str, str]]:
    """(group, version, resource, operation) of every rule."""
    return {
        (group, version, resource, operation)
        for rule in map(mapping, items(webhook.get("rules")))
        for group in texts(rule.get("apiGroups"))
        for version in texts(rule.get("apiVersions"))
        for resource in texts(rule.get("resources"))
        for operation in texts(rule.get("operations"))
    }


def _name(one: tuple[str, str, str, str]) -> str:
    group, _, resource, operation = one
    return f"{operation} {resource}.{group}".rstrip(".")
