"""Certificates for tests, good ones and every kind of bad one, at a time that stands still."""

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AT = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
DAY = timedelta(days=1)
NAME = "genguard.genguard-system.svc"

SERVER, CLIENT = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH


@dataclass(frozen=True, slots=True)
class Made:
    """A certificate made by hand, with its key, so that issue() is not examined by itself."""

    certificate: x509.Certificate
    key: Any

    @property
    def cert_pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return self.key_as(serialization.NoEncryption())

    def key_as(self, encryption: serialization.KeySerializationEncryption) -> bytes:
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
        )


def make(
    common_name: str = "made",
    *,
    signer: Made | None = None,
    ca: bool | None = False,
    sans: tuple[str, ...] = (NAME,),
    usages: tuple[x509.ObjectIdentifier, ...] | None = (SERVER,),
    begins: datetime = AT - DAY,
    ends: datetime = AT + 30 * DAY,
    rsa_bits: int | None = None,
    serial: int | None = None,
) -> Made:
    """One certificate; signed by itself without a signer, without constraints when ca is None."""
    key: Any = (
        ec.generate_private_key(ec.SECP256R1())
        if rsa_bits is None
        else rsa.generate_private_key(65537, rsa_bits)
    )
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if signer is None else signer.certificate.subject)
        .public_key(key.public_key())
        .serial_number(serial or x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
    )
    if ca is not None:
        constraints = x509.BasicConstraints(ca=ca, path_length=None)
        builder = builder.add_extension(constraints, critical=True)
    if sans and not ca:
        alternatives = x509.SubjectAlternativeName([_general_name(text) for text in sans])
        builder = builder.add_extension(alternatives, critical=False)
    if usages is not None and not ca:
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    return Made(builder.sign(key if signer is None else signer.key, hashes.SHA256()), key)


def _general_name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)
