"""The lint checks, by theme; CHECKS lists them in the order of the rules in SARIF."""

from typing import Final

from genguard.linting.check import Check, DefinitionCheck
from genguard.linting.checks import definitions, endpoint, failure, order, scope

CHECKS: Final[tuple[Check | DefinitionCheck, ...]] = (
    scope.pods_binding,
    endpoint.ca_bundle,
    endpoint.client_config,
    failure.fail_without_selector,
    failure.fail_covers_kube_system,
    scope.node_leases,
    scope.match_policy_exact,
    scope.nodes,
    order.order_of_numbers,
    order.order_genguard,
    order.reinvocation,
    order.registrations_reverted,
    endpoint.review_versions,
    failure.side_effects,
    scope.status_subresource_missing,
    scope.status_mutated,
    failure.timeout_long,
    failure.timeouts_add_up,
    scope.auth_reviews,
    scope.wildcard_resources,
    definitions.conditions_not_map,
    definitions.conditions_refuse_observed,
    definitions.no_conditions,
    definitions.no_observed_generation,
    definitions.status_no_subresource,
    definitions.status_unknown_fields,
)
