"""Whether the registrations are there, for the whole cluster, complete, and in nobody's way."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from webhook.doctor.facts import Facts, Found
from webhook.doctor.line import Line, fail, few, warn, well
from webhook.install.registering import foreign, home_of, is_limited, way_out
from webhook.install.where import title_of
from webhook.lint.hook import items, mapping, texts
from webhook.manifest.rendering import PHASES, REGISTRATIONS

_LONGEST_SECONDS: Final = 5
_SAME: Final = {
    "reinvocationPolicy": "which decides whether it sees what others change after it",
    "matchPolicy": "which decides whether a write by another version is seen",
    "sideEffects": "which decides whether dry runs pass",
}
_LEFT_OUT: Final = ("kube-system", "kube-node-lease")


def registered(facts: Facts) -> Iterator[Line]:
    """All three, and none for a trial namespace alone."""

    def look() -> Iterator[Line]:
        missing = [phase for phase in PHASES if phase not in facts.registered]
        if missing:
            told = "not registered" if len(missing) == len(PHASES) else "not all registered"
            yield fail("registered", f"{told}: {', '.join(missing)} is missing", facts.install)
        for found in facts.registered.values():
            if is_limited(found.registration):
                told = f"{found.hook.configuration} is for a trial namespace alone: "
                told += "an installation did not get to its end"
                yield fail("registered", told, facts.install)
        if facts.leftovers and not facts.is_partial:
            names = ", ".join(str(one["metadata"]["name"]) for one in facts.leftovers)
            yield warn("registered", f"left behind by an installation: {names}", facts.install)

    return well("registered", "intent, mutate and outcome, for the whole cluster", look())


def alone(facts: Facts) -> Iterator[Line]:
    """No other genguard in the cluster: it would repair and report the same writes."""

    def look() -> Iterator[Line]:
        others = foreign(facts.configurations, facts.namespace)
        taken = [one for one in others if (one["kind"], one["metadata"]["name"]) in REGISTRATIONS]
        if taken:
            home = home_of(taken[0])
            told = f"{few([title_of(one) for one in taken])} asks the genguard of namespace {home}"
            yield fail(
                "alone", f"{told}, not that of {facts.namespace}", f"genguard doctor -n {home}"
            )
        if more := [one for one in others if one not in taken]:
            told = f"another genguard is registered: {few([title_of(one) for one in more])}; "
            yield warn("alone", f"{told}both repair and report the same writes", way_out(more))

    return well("alone", "no other genguard is registered", look())


def rules(facts: Facts) -> Iterator[Line]:
    """Every write that the manifests name."""

    def look() -> Iterator[Line]:
        for found in facts.registered.values():
            lost = sorted(_asked(found.expected) - _asked(found.hook.body))
            if lost:
                told = f"{found.hook.configuration} is not asked about "
                yield fail("rules", told + few([_name(one) for one in lost]), facts.install)
            if any("*" in word for one in _asked(found.hook.body) for word in one):
                told = f"{found.hook.configuration} has a wildcard: Leases and access reviews too"
                yield warn("rules", told, facts.install)

    if not facts.registered:
        return
    count = len({one[2] for found in facts.registered.values() for one in _asked(found.hook.body)})
    yield from well("rules", f"{count} resources and subresources are watched", look())


def settings(facts: Facts) -> Iterator[Line]:
    """No write ever fails, or waits for long, because genguard is away."""

    def look() -> Iterator[Line]:
        for found in facts.registered.values():
            name, hook = found.hook.configuration, found.hook
            if hook.fails:
                told = f"{name} has failurePolicy Fail: writes fail while genguard is away"
                yield fail("settings", told, facts.install)
            if hook.timeout > _LONGEST_SECONDS:
                told = f"{name} has timeoutSeconds {hook.timeout}: so long a write may wait for it"
                yield warn("settings", told, facts.install)
            yield from _selectors(found, facts)
            for field, why in _SAME.items():
                now, wanted = hook.body.get(field), found.expected.get(field)
                if now != wanted:
                    told = f"{name} has {field} {now} instead of {wanted}, {why}"
                    yield warn("settings", told, facts.install)

    if facts.registered:
        yield from well("settings", "Ignore, short timeouts, kube-system left alone", look())


def _selectors(found: Found, facts: Facts) -> Iterator[Line]:
    name, hook = found.hook.configuration, found.hook
    if not is_limited(found.registration):
        seen = [one for one in (*_LEFT_OUT, facts.namespace) if hook.selects_namespace(one)]
        if seen:
            told = (
                f"{name} watches {', '.join(seen)}, by which the cluster or genguard itself lives"
            )
            yield fail("settings", told, facts.install)
    if hook.selects_objects:
        told = f"{name} has an objectSelector: whoever sets labels is not seen"
        yield warn("settings", told, facts.install)
    conditions = {
        mapping(one).get("name"): mapping(one).get("expression")
        for one in items(hook.body.get("matchConditions"))
    }
    for wanted in found.expected["matchConditions"]:
        condition = wanted["name"]
        if condition not in conditions:
            told = f"{name} has lost the matchCondition {condition}: genguard may wait for itself"
            yield warn("settings", told, facts.install)
        elif conditions[condition] != wanted["expression"]:
            told = f"{name} has another matchCondition {condition}, which decides which writes of "
            yield warn("settings", f"{told}genguard itself are protected", facts.install)


def _asked(webhook: Mapping[str, Any]) -> set[tuple[str, str, str, str]]:
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
