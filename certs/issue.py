"""Issue an authority and serving certificates as values, without files or a clock.

Reads   the names to serve, and the time `at`
Result  frozen PEM pairs; the repr leaves private keys out, so no log line holds one
Relies  on the rules of Go's crypto/x509 for servers: names in subjectAltName (it ignores the common
        name), the server authentication usage, and a chain to the registration's caBundle

Both keys are P-256: a TLS 1.3 handshake costs about half of what it costs with RSA-2048.
"""

import re
import secrets
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from certs.pem import (
    CertificateError,
    MalformedPEMError,
    PairSnapshot,
    is_authority,
    read_certificates,
    read_key,
    same_key,
    write_certificate,
    write_key,
)

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
"""The names that every leaf has, for port-forward."""
_LABEL: Final = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_DNS_NAME: Final = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(\.{_LABEL})*")
AUTHORITY_LIFETIME: Final = timedelta(days=3650)
LEAF_LIFETIME: Final = timedelta(days=30)
FIRST_LEAF_LIFETIME: Final = timedelta(days=365)
"""The lifetime of a leaf that a command makes: the command does not stay to renew it."""
RENEW_AFTER: Final = 2 / 3  # of the lifetime, as in cert-manager
CLOCK_SKEW: Final = timedelta(hours=1)  # the clock of an API server may be slow by this much
_MOST_SKEW: Final = 1 / 10  # of the lifetime, where that is short
AUTHORITY_NAME: Final = "genguard CA"
"""The common name of every authority begins with this."""
_USAGES: Final = (
    "digital_signature", "content_commitment", "key_encipherment", "data_encipherment",
    "key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
)  # fmt: skip


def issue(
    *,
    names: Sequence[str],
    at: datetime,
    authority: PairSnapshot | None = None,
    leaf_lifetime: timedelta = LEAF_LIFETIME,
) -> PairSnapshot:
    """Issue a leaf for the names and the loopback ones, signed by this or by a new authority.

    names  DNS names and IP addresses
    Raises CertificateError for a name that is none, or an authority whose key cannot sign.
    """
    signer = issue_authority(at=at) if authority is None else authority
    (certificate, *_), signing_key = read_certificates(signer.cert_pem), read_key(signer.key_pem)
    if not isinstance(signing_key, ec.EllipticCurvePrivateKey):
        raise CertificateError("ca.key is no elliptic curve key: remove it, and one is made")
    # A leaf that outlives its authority becomes invalid before its own notAfter.
    not_after = min(at + leaf_lifetime, certificate.not_valid_after_utc)
    key = ec.generate_private_key(ec.SECP256R1())
    key_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key())
    alternatives = dict.fromkeys(_general_name(text) for text in (*names, *LOOPBACK))
    builder = (
        _builder("genguard", key, at, not_after, "digital_signature")
        .issuer_name(certificate.subject)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(key_id, critical=False)
    )
    signed = builder.sign(signing_key, hashes.SHA256())
    return PairSnapshot(write_certificate(signed), write_key(key), signer.cert_pem)


def issue_authority(*, at: datetime, lifetime: timedelta = AUTHORITY_LIFETIME) -> PairSnapshot:
    """Issue a new self-signed authority that may only sign leaf certificates (pathLen 0)."""
    key = ec.generate_private_key(ec.SECP256R1())
    key_id = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    # An old and a new authority may be in one caBundle, so each needs a unique name.
    name = f"{AUTHORITY_NAME} {key_id.digest.hex()[:8]}"
    builder = (
        _builder(name, key, at, at + lifetime, "key_cert_sign")
        .issuer_name(_name(name))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    )
    return PairSnapshot(write_certificate(builder.sign(key, hashes.SHA256())), write_key(key))


def find_authority(
    bundle: Iterable[x509.Certificate], key_pem: bytes, at: datetime
) -> PairSnapshot | None:
    """Return the authority of this key, unless it is so old that a new one must replace it."""
    try:
        key = read_key(key_pem)
    except MalformedPEMError:
        return None
    for certificate in bundle:
        begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
        if (
            same_key(certificate, key)
            and is_authority(certificate)
            and begins <= at < renew_from(begins, ends)
        ):
            return PairSnapshot(write_certificate(certificate), key_pem)
    return None


def renew_from(not_before: datetime, not_after: datetime) -> datetime:
    """Return the time from which a certificate should be renewed."""
    return not_before + (not_after - not_before) * RENEW_AFTER


def _builder(
    name: str, key: ec.EllipticCurvePrivateKey, at: datetime, not_after: datetime, usage: str
) -> x509.CertificateBuilder:
    public = key.public_key()
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .public_key(public)
        .serial_number(secrets.randbits(128) | 1)  # never 0
        .not_valid_before(at - min(CLOCK_SKEW, (not_after - at) * _MOST_SKEW))
        .not_valid_after(not_after)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.KeyUsage(**{flag: flag == usage for flag in _USAGES}), critical=True)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def service_names(service: str, namespace: str) -> tuple[str, ...]:
    """Return every DNS name of a Service; the API server uses the first, as SNI and as Host."""
    short = f"{service}.{namespace}"
    return f"{short}.svc", short, service, f"{short}.svc.cluster.local"


def installed_names(service: str, namespace: str) -> tuple[str, ...]:
    """Return every name of an installation's certificate, which pods and store share.

    The Service of the store is named SERVICE-valkey, see manifests/valkey.
    """
    return *service_names(service, namespace), f"{service}-valkey.{namespace}.svc"


def alternative_names(certificate: x509.Certificate) -> tuple[str, ...]:
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
    address = _parse_ip(name)
    if address is not None:
        return str(address) in alternatives
    _, _, domain = name.lower().partition(".")
    wanted = {name.lower(), f"*.{domain}"} if domain else {name.lower()}
    return any(alternative.lower() in wanted for alternative in alternatives)


def _parse_ip(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _general_name(text: str) -> x509.GeneralName:
    address = _parse_ip(text)
    if address is not None:
        return x509.IPAddress(address)
    if _DNS_NAME.fullmatch(text) is None:
        raise CertificateError(
            f"{text!r} is no IP address and no DNS name: lower-case labels of letters, digits, '-'"
        )
    return x509.DNSName(text)
