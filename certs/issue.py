"""Issue an authority and serving certificates as values, without files or a clock.

Reads   the names to serve, and the time `at`
Result  frozen PEM pairs; the repr leaves private keys out, so no log line holds one
Relies  on the rules of Go's crypto/x509 for servers: names in subjectAltName (it ignores the common
        name), the server authentication usage, and a chain to the registration's caBundle

Both keys are P-256: a TLS 1.3 handshake costs about half of what it costs with RSA-2048.
"""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from certs.errors import InvalidRequestError, MalformedPEMError
from certs.names import to_alternative_names
from certs.pem import read_certificates, read_key, same_key, write_certificate, write_key

AUTHORITY_LIFETIME: Final = timedelta(days=365)
LEAF_LIFETIME: Final = timedelta(days=30)
CLOCK_SKEW: Final = timedelta(hours=1)  # the clock of an API server may be slow by this much
_MOST_SKEW: Final = 1 / 10  # of the lifetime, where that is short
AUTHORITY_NAME: Final = "genguard CA"
"""The common name of every authority begins with this."""

Serial: TypeAlias = Callable[[], int]


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, both PEM."""

    cert_pem: bytes
    key_pem: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class CertificateAuthority(KeyPair):
    """An authority that may only sign leaf certificates (pathLen 0)."""


@dataclass(frozen=True, slots=True)
class LeafCertificate(KeyPair):
    """The certificate that a server presents."""


@dataclass(frozen=True, slots=True)
class Issued:
    """A leaf certificate and the authority that signed it."""

    authority: CertificateAuthority
    leaf: LeafCertificate


def random_serial() -> int:
    """Return 128 random bits, never 0: clients identify certificates by issuer and serial."""
    return secrets.randbits(128) | 1


def issue(
    *,
    names: Sequence[str],
    ips: Sequence[str] = (),
    at: datetime,
    authority: CertificateAuthority | None = None,
    leaf_lifetime: timedelta = LEAF_LIFETIME,
    serial: Serial = random_serial,
) -> Issued:
    """Issue a leaf for the names and the loopback ones, signed by this or by a new authority."""
    signer = issue_authority(at=at, serial=serial) if authority is None else authority
    certificate, signing_key = _open(signer, at)
    # A leaf that outlives its authority becomes invalid before its own notAfter.
    not_after = min(at + leaf_lifetime, certificate.not_valid_after_utc)
    key = ec.generate_private_key(ec.SECP256R1())
    key_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key())
    builder = (
        _builder("genguard", key, at, not_after, serial)
        .issuer_name(certificate.subject)
        .add_extension(to_alternative_names(names, ips), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(key_id, critical=False)
    )
    return Issued(authority=signer, leaf=LeafCertificate(*_sign(builder, key, signing_key)))


def issue_authority(
    *,
    at: datetime,
    lifetime: timedelta = AUTHORITY_LIFETIME,
    serial: Serial = random_serial,
) -> CertificateAuthority:
    """Issue a new self-signed authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    key_id = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    # During a rotation two authorities are in one caBundle, so each needs a unique name.
    name = f"{AUTHORITY_NAME} {key_id.digest.hex()[:8]}"
    builder = (
        _builder(name, key, at, at + lifetime, serial)
        .issuer_name(_name(name))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True), critical=True)
    )
    return CertificateAuthority(*_sign(builder, key, key))


def _open(
    authority: CertificateAuthority, at: datetime
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """Return the authority's certificate and key, if it may sign at this time."""
    try:
        certificate, key = read_certificates(authority.cert_pem)[0], read_key(authority.key_pem)
    except MalformedPEMError as error:
        raise InvalidRequestError(f"the authority cannot be read: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not same_key(certificate, key):
        raise InvalidRequestError(
            "the authority's key is not the elliptic curve key its certificate was made for"
        )
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if not begins <= _aware(at) < ends:
        raise InvalidRequestError(
            f"the authority signs from {begins:%FT%TZ} until {ends:%FT%TZ}: issue a new one"
        )
    return certificate, key


def _aware(at: datetime) -> datetime:
    if at.tzinfo is None:
        raise InvalidRequestError("a time without offset is ambiguous: give it in UTC")
    return at


def _builder(
    name: str, key: ec.EllipticCurvePrivateKey, at: datetime, not_after: datetime, serial: Serial
) -> x509.CertificateBuilder:
    if not_after <= _aware(at):
        raise InvalidRequestError("a certificate must end after it begins: give a later end")
    public = key.public_key()
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .public_key(public)
        .serial_number(serial())
        .not_valid_before(at - min(CLOCK_SKEW, (not_after - at) * _MOST_SKEW))
        .not_valid_after(not_after)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _usage(*, digital_signature: bool = False, key_cert_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        key_cert_sign=key_cert_sign,
        crl_sign=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _sign(
    builder: x509.CertificateBuilder,
    key: ec.EllipticCurvePrivateKey,
    signing_key: ec.EllipticCurvePrivateKey,
) -> tuple[bytes, bytes]:
    return write_certificate(builder.sign(signing_key, hashes.SHA256())), write_key(key)
