"""The names of a serving certificate: DNS names and IP addresses.

Relies  on RFC 1123 for names and on Go's crypto/x509, which compares IP addresses by bytes
"""

import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from cryptography import x509

from certs.errors import InvalidRequestError

LOOPBACK: Final = (
    "localhost",
    "127.0.0.1",
    "::1",
)  # in every leaf, for port-forward

_LABEL: Final = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_DNS_NAME: Final = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(\.{_LABEL})*")


def service_names(
    service: str, namespace: str, *, cluster_domain: str = "cluster.local"
) -> tuple[str, ...]:
    """Return every DNS name of a Service; the API server uses the first, as SNI and as Host."""
    short = f"{service}.{namespace}"
    return f"{short}.svc", short, service, f"{short}.svc.{cluster_domain}"


def installed_names(service: str, namespace: str) -> tuple[str, ...]:
    """Return every name of an installation's certificate, which pods and store share.

    The Service of the store is named SERVICE-valkey, see manifests/valkey.
    """
    return *service_names(service, namespace), f"{service}-valkey.{namespace}.svc"


def to_alternative_names(names: Sequence[str], ips: Sequence[str]) -> x509.SubjectAlternativeName:
    """Return the extension for these names, these addresses and the loopback ones."""
    texts = dict.fromkeys((*names, *ips, *LOOPBACK))
    for ip in ips:
        if parse_ip(ip) is None:
            raise InvalidRequestError(
                f"{ip!r} is not an IP address: give it as 10.0.0.1 or fd00::1"
            )
    return x509.SubjectAlternativeName(dict.fromkeys(_general_name(text) for text in texts))


def from_alternative_names(certificate: x509.Certificate) -> tuple[str, ...]:
    """Return the DNS names and IP addresses of a certificate as text."""
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return ()
    found = extension.value
    addresses = found.get_values_for_type(x509.IPAddress)
    return (*found.get_values_for_type(x509.DNSName), *(str(address) for address in addresses))


def covers(alternatives: Sequence[str], name: str) -> bool:
    """Whether the alternatives cover a name that a client uses; `*.` stands for one label."""
    address = parse_ip(name)
    if address is not None:
        return str(address) in alternatives
    _, _, domain = name.lower().partition(".")
    wanted = {name.lower(), f"*.{domain}"} if domain else {name.lower()}
    return any(alternative.lower() in wanted for alternative in alternatives)


def parse_ip(text: str) -> IPv4Address | IPv6Address | None:
    """Return the IP address, or None if the text is not one."""
    try:
        return ip_address(text)
    except ValueError:
        return None


def _general_name(text: str) -> x509.GeneralName:
    address = parse_ip(text)
    if address is not None:
        return x509.IPAddress(address)
    if _DNS_NAME.fullmatch(text) is None:
        raise InvalidRequestError(
            f"{text!r} is not a DNS name: lower-case labels of letters, digits and '-'"
        )
    return x509.DNSName(text)
