"""Read certificates and keys from PEM, and write them; the values and errors of this package.

`cryptography` parses many parts on first use. Here everything is parsed at once, so a certificate
from this module raises no error later. No message holds contents of a file.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final, Self, TypeAlias, TypeVar

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes, PublicKeyTypes

_Read = TypeVar("_Read")

CERT_FILE: Final = "tls.crt"
KEY_FILE: Final = "tls.key"
CA_FILE: Final = "ca.crt"
Files: TypeAlias = Mapping[str, bytes]
"""The contents of a Secret or folder: tls.crt, tls.key, ca.crt and ca.key. Others are kept."""

_MALFORMED: Final = (
    ValueError,
    UnsupportedAlgorithm,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)


class CertificateError(Exception):
    """Any error about certificates: it says what is wrong, where, and what to do."""


class MalformedPEMError(CertificateError):
    """The bytes are not the expected PEM."""


class PairFileError(CertificateError):
    """A file or folder of the pair cannot be read or written."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(f"{path}: {message}")


@dataclass(frozen=True, slots=True)
class PairSnapshot:
    """A certificate, its private key and its CA bundle, all PEM."""

    cert_pem: bytes
    key_pem: bytes = field(repr=False)
    ca_pem: bytes | None = None  # None: no such file

    @classmethod
    def of(cls, files: Files) -> Self:
        """The pair of a folder or Secret; what is missing is empty."""
        return cls(files.get(CERT_FILE, b""), files.get(KEY_FILE, b""), files.get(CA_FILE))

    @property
    def files(self) -> dict[str, bytes]:
        """The pair by the names of its files."""
        return {CERT_FILE: self.cert_pem, KEY_FILE: self.key_pem, CA_FILE: self.ca_pem or b""}


def read_certificates(pem: bytes) -> tuple[x509.Certificate, ...]:
    """Read all certificates of the text, at least one; other PEM blocks are ignored."""

    def parse() -> tuple[x509.Certificate, ...]:
        certificates = tuple(x509.load_pem_x509_certificates(pem))
        for certificate in certificates:
            try:
                _parse_everything(certificate)
            except TypeError as error:  # an attribute of a name has a wrong type
                raise MalformedPEMError("not X.509: a name cannot be read") from error
        return certificates

    return _reading(parse, "not X.509 certificates in PEM (-----BEGIN CERTIFICATE-----)")


def read_living(bundle_pem: bytes, at: datetime) -> tuple[x509.Certificate, ...]:
    """Read the certificates that have not expired; none of a bundle that cannot be read."""
    try:
        found = read_certificates(bundle_pem)
    except MalformedPEMError:
        return ()
    return tuple(certificate for certificate in found if at < certificate.not_valid_after_utc)


def read_key(pem: bytes) -> PrivateKeyTypes:
    """Read the private key of the text; a key with a passphrase is refused."""
    try:
        return _reading(
            lambda: serialization.load_pem_private_key(pem, password=None),
            "not a private key in PEM (-----BEGIN PRIVATE KEY-----)",
        )
    except TypeError as error:  # cryptography raises it for a key with a passphrase
        raise MalformedPEMError("encrypted with a passphrase; store it unencrypted") from error


def same_key(certificate: x509.Certificate, key: PrivateKeyTypes) -> bool:
    """Whether the certificate was issued for this private key."""
    return _public_bytes(certificate.public_key()) == _public_bytes(key.public_key())


def is_authority(certificate: x509.Certificate) -> bool:
    """Whether the certificate is marked as a CA."""
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def write_certificate(certificate: x509.Certificate) -> bytes:
    """Return the certificate as PEM."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def write_key(key: PrivateKeyTypes) -> bytes:
    """Return the key as unencrypted PKCS #8 PEM, which Go, OpenSSL and kubectl read."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _reading(parse: Callable[[], _Read], complaint: str) -> _Read:
    try:
        # cryptography warns about serial 0, which OPA's cert-controller uses.
        with warnings.catch_warnings(action="ignore"):
            return parse()
    except _MALFORMED as error:
        raise MalformedPEMError(complaint) from error


def _parse_everything(certificate: x509.Certificate) -> None:
    _public_bytes(certificate.public_key())
    certificate.subject.rfc4514_string()
    certificate.issuer.rfc4514_string()
    _ = certificate.extensions, certificate.signature_hash_algorithm
    _ = certificate.not_valid_before_utc, certificate.not_valid_after_utc


def _public_bytes(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
