"""Run every check of `genguard doctor` on the facts of a cluster."""

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
from webhook.doctor.result import Check, CheckResult, fail

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


def diagnose(facts: Facts) -> tuple[CheckResult, ...]:
    """Return the results of all checks, or of one if genguard is not installed."""
    if not facts.registered and not any(facts.live.values()):
        message = "genguard is not installed in this cluster"
        return (*api_server(facts), fail("installed", message, facts.install))
    return tuple(line for check in CHECKS for line in check(facts))
