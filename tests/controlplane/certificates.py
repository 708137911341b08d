"""The certificates of a test: one authority, servers on loopback, service account keys."""

import base64
import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = dt.timedelta(days=2)
_SKEW = dt.timedelta(hours=1)  # a clock that was set back must not break a running suite


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Writes NAME.crt and NAME.key and returns their paths."""
        paths = folder / f"{name}.crt", folder / f"{name}.key"
        for path, content in zip(paths, (self.certificate, self.key), strict=True):
            path.touch(mode=0o600)
            path.write_bytes(content)
        return paths


class Authority:
    """A certificate authority that lives as long as one test run."""

    def __init__(self, name: str = "genguard-tests", *, pair: KeyPair | None = None) -> None:
        """`pair`: of an authority that somebody else has made."""
        if pair is not None:
            self._certificate = x509.load_pem_x509_certificate(pair.certificate)
            self._name = self._certificate.subject
            key = serialization.load_pem_private_key(pair.key, None)
            assert isinstance(key, ec.EllipticCurvePrivateKey)
            self._key = key
            return
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        self._certificate = (
            _builder(self._name, self._name, self._key)
            .add_extension(constraints, critical=True)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def pair(self) -> KeyPair:
        """The authority itself, for whoever must sign with it."""
        return KeyPair(_pem(self._certificate), private_pem(self._key))

    @property
    def ca_bundle(self) -> str:
        """What a webhook's clientConfig.caBundle takes: base64 of the PEM certificate."""
        return base64.b64encode(_pem(self._certificate)).decode()

    def issue_server(self, *names: str) -> KeyPair:
        """A certificate for a server on 127.0.0.1, localhost and any other names and addresses."""
        found = [_name(one) for one in dict.fromkeys(("127.0.0.1", "localhost", *names))]
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        return self._issue("server", x509.SubjectAlternativeName(found), usage)

    def issue_client(self, name: str) -> KeyPair:
        """A certificate for a client that is known by its common name."""
        return self._issue(name, x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]))

    def _issue(self, name: str, *extensions: x509.ExtensionType) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = _builder(subject, self._name, key)
        for one in extensions:
            builder = builder.add_extension(one, critical=False)
        return KeyPair(_pem(builder.sign(self._key, hashes.SHA256())), private_pem(key))


def service_account_key() -> bytes:
    """The key that signs service account tokens; the API server derives the public half."""
    return private_pem(ec.generate_private_key(ec.SECP256R1()))


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """SEC 1, the only form of an EC key that every Kubernetes flag reads."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + _LIFETIME)
    )
