"""diagnose(): facts in, a line for each thing that is well or is not."""

from typing import Final

from webhook.doctor.answers import conditions, incomplete, mode, phases
from webhook.doctor.calls import clock, last_seen, reached, store
from webhook.doctor.certificates import ca_bundle, certificate
from webhook.doctor.cluster import api_server, kinds, order
from webhook.doctor.facts import Facts
from webhook.doctor.line import Check, Line, fail
from webhook.doctor.registrations import alone, registered, rules, settings
from webhook.doctor.server import heal, installed, pods, rights

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
    reached,
    phases,
    mode,
    last_seen,
    store,
    incomplete,
    conditions,
    rights,
    heal,
    clock,
    kinds,
)
"""In the order in which a cause comes before what follows from it."""


def diagnose(facts: Facts) -> tuple[Line, ...]:
    """Every line of every check; where genguard is not, that alone."""
    if not facts.registered and not any(facts.live.values()):
        told = "genguard is not in this cluster"
        return (*api_server(facts), fail("installed", told, facts.install))
    return tuple(line for check in CHECKS for line in check(facts))
