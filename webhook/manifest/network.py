"""Rules of the NetworkPolicy: who may call genguard's pods, and whom they may call."""

from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from typing import Any


def limit_callers(policy: dict[str, Any], api_servers: tuple[str, ...]) -> None:
    """Let only these CIDRs reach the webhook port."""
    for rule in policy["spec"]["ingress"]:
        if any(port["port"] == "webhook" for port in rule["ports"]):
            rule["from"] = [{"ipBlock": {"cidr": cidr}} for cidr in api_servers]


def callers_of(document: Mapping[str, Any]) -> Iterator[str]:
    """The CIDRs that `limit_callers` has put into a NetworkPolicy; none for other documents."""
    if document["kind"] != "NetworkPolicy":
        return
    for rule in document["spec"].get("ingress") or ():
        if any(port.get("port") == "webhook" for port in rule.get("ports") or ()):
            sources = rule.get("from") or ()
            yield from (one["ipBlock"]["cidr"] for one in sources if "ipBlock" in one)


def way_out(host: str, port: int) -> dict[str, Any]:
    """An egress rule that lets pods call this host and TCP port.

    The rule names the namespace of a Service (`NAME.NAMESPACE.svc`), or the IP address. Any other
    name may lead anywhere, so its rule allows the port to every address.
    """
    rule: dict[str, Any] = {"ports": [{"port": port, "protocol": "TCP"}]}
    try:
        address = ip_address(host)
    except ValueError:
        match host.split("."):
            case [_, namespace, "svc", *_]:
                labels = {"kubernetes.io/metadata.name": namespace}
                rule["to"] = [{"namespaceSelector": {"matchLabels": labels}}]
    else:
        rule["to"] = [{"ipBlock": {"cidr": f"{address}/{address.max_prefixlen}"}}]
    return rule
