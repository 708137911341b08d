"""What the cluster itself is like: its version, who else mutates, which kinds it numbers."""

from collections.abc import Iterator
from typing import Final

from webhook.doctor.facts import Facts
from webhook.doctor.line import Level, Line, fail, few, warn, well
from webhook.generation.strategy import parse_version
from webhook.generation.table import load_table
from webhook.lint.checks.order_genguard import CHECK as ORDER_CHECK
from webhook.lint.hook import MUTATING, items, mapping, texts
from webhook.lint.lint import lint
from webhook.trace.plan import is_observer

_OLDEST: Final = (1, 30)


def api_server(facts: Facts) -> Iterator[Line]:
    """New enough for matchConditions and the kubelet's own sleep."""
    old = parse_version(facts.version) < _OLDEST
    told = f"Kubernetes {facts.version} is too old: 1.30 or newer is needed"
    lines = [fail("api-server", told, "kubectl version")] if old else []
    yield from well("api-server", f"Kubernetes {facts.version}", lines)
    for what, why in facts.unread.items():
        yield warn("api-server", f"{what} could not be looked at: {why}", "kubectl auth whoami")


def order(facts: Facts) -> Iterator[Line]:
    """Nobody mutates before intent or after mutate."""
    # The observers of `genguard trace` stand outside on purpose, for a moment, and change nothing.
    others = [one for one in facts.configurations if not is_observer(one)]
    found = lint(others, at=facts.at, live=True, checks=(ORDER_CHECK,))
    names = dict.fromkeys((one.webhook.partition("/")[0], one.message) for one in found)
    lines = [warn("order", f"{name} {message}", _renamed(name)) for name, message in names]
    count = sum(one["kind"] == MUTATING for one in others)
    told = f"first and last of {count} mutating configurations; those on the API server's own disk "
    return well("order", told + "cannot be seen", lines)


def _renamed(name: str) -> str:
    """Its owner may make it again: then it is its owner who has to choose the name."""
    get = f"kubectl get mutatingwebhookconfiguration {name} -o yaml"
    edit = f"sed '/^  \\(uid\\|resourceVersion\\):/d; s/^  name: {name}$/  name: m-{name}/'"
    delete = f"kubectl delete mutatingwebhookconfiguration {name}"
    return f"{get} | {edit} | kubectl create -f - && {delete}"


def kinds(facts: Facts) -> Iterator[Line]:
    """What is watched, served and numbered by this API server."""
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
    told = f"{len(served)} kinds are watched; the API server numbers {len(numbered)} of them "
    told += "itself: their generation is checked, and their status mended"
    unserved = sorted(resource for _, _, resource in watched - facts.served)
    if unserved:
        told += f"; not served here: {few(unserved)}"
    unwatched = [f"{one[1]}.{one[0]}" for one in facts.custom if one not in served]
    if unwatched:
        told += f"; custom resources that are not watched: {few(unwatched)}"
    yield Line(Level.OK, "kinds", told)
