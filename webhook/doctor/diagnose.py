"""Run every check of `genguard doctor` on the facts of a cluster."""

from typing import Final

from webhook.doctor import cluster, probes, registrations
from webhook.doctor.facts import Check, CheckResult, Facts, Level

CHECKS: Final[tuple[Check, ...]] = (
    cluster.api_server,
    cluster.unread,
    cluster.installed,
    cluster.pods,
    registrations.certificate,
    registrations.registered,
    registrations.alone,
    registrations.rules,
    registrations.reverted,
    registrations.settings,
    registrations.ca_bundle,
    cluster.order,
    probes.reached,
    probes.phases,
    probes.mode,
    probes.last_seen,
    probes.store,
    probes.tasks,
    probes.incomplete,
    probes.conditions,
    cluster.rights,
    cluster.heal,
    cluster.clock,
    cluster.kinds,
    cluster.nodes,
    probes.culprits,
)
"""Causes come before their consequences."""


def diagnose(facts: Facts) -> tuple[CheckResult, ...]:
    """Return the results of all checks, or of one if genguard is not installed."""
    if not facts.registered and not any(facts.live.values()) and not facts.unread:
        message = "genguard is not installed in this cluster"
        absent = CheckResult(Level.FAIL, cluster.installed.id, message, facts.install)
        return (*cluster.api_server.results(facts), absent)
    return tuple(result for check in CHECKS for result in check.results(facts))
