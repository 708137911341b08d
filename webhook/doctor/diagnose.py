"""Run every check of `genguard doctor` on the facts of a cluster."""

from collections.abc import Iterator, Mapping
from typing import Final

from webhook.doctor.certificates import ca_bundle, certificate
from webhook.doctor.cluster import api_server, heal, installed, kinds, order, pods, rights, static
from webhook.doctor.facts import Facts
from webhook.doctor.nodes import nodes
from webhook.doctor.probes import (
    clock,
    conditions,
    culprits,
    incomplete,
    last_seen,
    mode,
    phases,
    reached,
    store,
    tasks,
)
from webhook.doctor.registrations import alone, registered, rules, settings
from webhook.doctor.result import Check, CheckResult, Level, fail, few
from webhook.manifest.documents import title_of

CHECKS: Final[tuple[Check, ...]] = (
    api_server,
    installed,
    pods,
    certificate,
    registered,
    alone,
    rules,
    settings,
    ca_bundle,
    order,
    static,
    reached,
    phases,
    mode,
    last_seen,
    store,
    tasks,
    incomplete,
    conditions,
    rights,
    heal,
    clock,
    kinds,
    nodes,
    culprits,
)
"""Causes come before their consequences."""

_REGISTRATIONS: Final = "the registrations"
_DEPLOYMENT: Final = "the Deployment"
_RELIES_ON: Final[Mapping[Check, tuple[str, ...]]] = {
    installed: (_REGISTRATIONS,),
    pods: (_REGISTRATIONS, _DEPLOYMENT, "the endpoints"),
    certificate: (_REGISTRATIONS, "the Secret"),
    registered: (_REGISTRATIONS, "what is left of installations"),
    alone: (_REGISTRATIONS,),
    rules: (_REGISTRATIONS,),
    settings: (_REGISTRATIONS,),
    ca_bundle: (_REGISTRATIONS, "the Secret"),
    order: (_REGISTRATIONS,),
    static: (_DEPLOYMENT,),
    reached: (_REGISTRATIONS,),
    mode: (_DEPLOYMENT, "the pods"),
    rights: (_REGISTRATIONS, "rights"),
    heal: (_DEPLOYMENT, "rights"),
    kinds: ("what is served", "custom resources"),
}
"""The names in `unread` without which a check would say that something is missing, or well."""


def diagnose(facts: Facts) -> tuple[CheckResult, ...]:
    """Return the results of all checks, or of one if genguard is not installed."""
    if not facts.registered and not any(facts.live.values()) and not facts.unread:
        message = "genguard is not installed in this cluster"
        return (*api_server(facts), fail("installed", message, facts.install))
    return tuple(line for check in CHECKS for line in _checked(check, facts))


def _checked(check: Check, facts: Facts) -> Iterator[CheckResult]:
    unread = [one for one in _RELIES_ON.get(check, ()) if one in facts.unread]
    if check is installed:
        unread += [title for one in facts.expected if (title := title_of(one)) in facts.unread]
    if unread:
        name = check.__name__.replace("_", "-")
        message = f"not checked, for {few(unread)} could not be read"
        yield CheckResult(Level.UNKNOWN, name, message)
        return
    yield from check(facts)
