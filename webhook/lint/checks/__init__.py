"""One check a file; ALL lists them."""

from typing import Final

from webhook.lint.check import Check
from webhook.lint.checks.bindings import Bindings
from webhook.lint.checks.ca_bundle import CaBundle
from webhook.lint.checks.client import Client
from webhook.lint.checks.fail_everywhere import FailEverywhere
from webhook.lint.checks.kube_system import KubeSystem
from webhook.lint.checks.leases import Leases
from webhook.lint.checks.match_policy import MatchPolicy
from webhook.lint.checks.nodes import Nodes
from webhook.lint.checks.order import Order
from webhook.lint.checks.order_genguard import OrderGenguard
from webhook.lint.checks.reinvocation import Reinvocation
from webhook.lint.checks.review_versions import ReviewVersions
from webhook.lint.checks.side_effects import SideEffects
from webhook.lint.checks.status_meant import StatusMeant
from webhook.lint.checks.status_mutated import StatusMutated
from webhook.lint.checks.timeout import Timeout
from webhook.lint.checks.timeout_sum import TimeoutSum
from webhook.lint.checks.virtual_auth import VirtualAuth
from webhook.lint.checks.wildcard_resources import WildcardResources

ALL: Final[tuple[Check, ...]] = (
    WildcardResources(),
    StatusMeant(),
    FailEverywhere(),
    KubeSystem(),
    Bindings(),
    Leases(),
    VirtualAuth(),
    Nodes(),
    Timeout(),
    TimeoutSum(),
    Reinvocation(),
    Order(),
    OrderGenguard(),
    CaBundle(),
    StatusMutated(),
    SideEffects(),
    ReviewVersions(),
    MatchPolicy(),
    Client(),
)

__all__ = ["ALL"]
