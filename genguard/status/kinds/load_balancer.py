"""Services and Ingresses: in force at once, or when their load balancer has an address.

Reads    spec.type, spec.clusterIP; status.loadBalancer.ingress[].ip and .hostname.
Amends   the Ready table: a hostname is enough. Without any address both kinds are pending, as in
         the table and in Argo CD.
Source   core/v1 and networking.k8s.io/v1 types.go: LoadBalancerIngress, IngressLoadBalancerIngress.
"""

from typing import Final

from genguard.objects.fields import ABSENT
from genguard.status.checked_object import CheckedObject, WrongTypeError
from genguard.status.kind_rule import NOTHING_BLOCKS, KindRule, KindRules, KindVerdict
from genguard.status.view import Reason, short_word

_PATH = "status.loadBalancer.ingress"


def evaluate_service(obj: CheckedObject) -> KindVerdict:
    """Require an address for type LoadBalancer; every other type is ready at once.

    Ready    as soon as it is stored; type LoadBalancer when status.loadBalancer.ingress has an
             address
    Settled  the same
    """
    if obj.word("spec", "type", "ClusterIP") != "LoadBalancer":
        return NOTHING_BLOCKS
    reasons = _find_missing_address(obj)
    if not obj.word("spec", "clusterIP"):
        reasons.insert(0, Reason("spec.clusterIP", ABSENT, "an address"))
    return KindVerdict(reasons)


def evaluate_ingress(obj: CheckedObject) -> KindVerdict:
    """Require the address that its controller publishes.

    Ready    status.loadBalancer.ingress has an ip or a hostname
    Settled  the same
    """
    return KindVerdict(_find_missing_address(obj))


def _find_missing_address(obj: CheckedObject) -> list[Reason]:
    ingress = obj.inner("status", "loadBalancer").get("ingress")
    if ingress is not None and not isinstance(ingress, list):
        raise WrongTypeError(_PATH, ingress, "a list")
    if not ingress:
        have = ABSENT if ingress is None else short_word("")
        return [Reason(_PATH, have, "an ip or a hostname")]
    for index, item in enumerate(ingress):
        if not isinstance(item, dict):
            raise WrongTypeError(f"{_PATH}[{index}]", item, "an object")
        if not (item.get("ip") or item.get("hostname")):
            return [Reason(f"{_PATH}[{index}]", short_word(""), "an ip or a hostname")]
    return []


RULES: Final[KindRules] = {
    ("", "Service"): KindRule(evaluate_service),
    ("networking.k8s.io", "Ingress"): KindRule(evaluate_ingress),
}
