"""Services and Ingresses: in force at once, or as soon as a load balancer has an address.

Reads    spec.type, spec.clusterIP; status.loadBalancer.ingress[].ip and .hostname.
Amends   the Ready table: a hostname alone will do. Without any address both kinds are pending, as
         in the table and in Argo CD.
Source   core/v1 and networking.k8s.io/v1 types.go: LoadBalancerIngress, IngressLoadBalancerIngress.
"""

from webhook.objects.fields import ABSENT
from webhook.status.judgement import GOOD, Judgement
from webhook.status.reason import Reason, short_word
from webhook.status.subject import Subject, UnreadableError

_PATH = "status.loadBalancer.ingress"


def judge_service(subject: Subject) -> Judgement:
    """Only type LoadBalancer waits for anybody.

    Ready    as soon as it is stored; type LoadBalancer when status.loadBalancer.ingress has an
             address
    Settled  the same
    """
    if subject.word("spec", "type", "ClusterIP") != "LoadBalancer":
        return GOOD
    reasons = _address_missing(subject)
    if not subject.word("spec", "clusterIP"):
        reasons.insert(0, Reason("spec.clusterIP", ABSENT, "an address"))
    return Judgement(reasons)


def judge_ingress(subject: Subject) -> Judgement:
    """Its controller publishes where it listens.

    Ready    status.loadBalancer.ingress has an ip or a hostname
    Settled  the same
    """
    return Judgement(_address_missing(subject))


def _address_missing(subject: Subject) -> list[Reason]:
    ingress = subject.inner("status", "loadBalancer").get("ingress")
    if ingress is not None and not isinstance(ingress, list):
        raise UnreadableError(_PATH, ingress, "a list")
    if not ingress:
        have = ABSENT if ingress is None else short_word("")
        return [Reason(_PATH, have, "an ip or a hostname")]
    for index, item in enumerate(ingress):
        if not isinstance(item, dict):
            raise UnreadableError(f"{_PATH}[{index}]", item, "an object")
        if not (item.get("ip") or item.get("hostname")):
            return [Reason(f"{_PATH}[{index}]", short_word(""), "an ip or a hostname")]
    return []
