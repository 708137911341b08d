"""Valid objects of every resource, and valid changes of them, drawn at random from samples.yaml."""

import base64
import random
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import NameOID

from tests.controlplane.certificates import Authority
from tests.controlplane.discovery import ServedResource

_FOLDER = Path(__file__).parent
_PLACEHOLDER = re.compile(r"\$([a-z0-9]+)")
_NUMBERS = {"$n": (1, 9), "$nn": (10, 99)}
_WORDS = ("red", "green", "blue", "black", "white", "amber")


@dataclass(frozen=True)
class Sample:
    """What can be done with one resource."""

    name: str
    objects: dict[str, dict[str, Any]]
    changes: tuple[dict[str, Any], ...]
    status: dict[str, Any] | None

    def object(self, version: str) -> dict[str, Any]:
        """What is created in a version."""
        return self.objects.get(version, self.objects[""])


@cache
def load_samples() -> dict[str, Sample]:
    """By resource, in kubectl's notation."""
    rows = yaml.load((_FOLDER / "samples.yaml").read_text(), yaml.CSafeLoader)
    return {
        resource: Sample(
            name=row.get("name", "sample-$i"),
            objects={"": row["object"], **row.get("objects", {})},
            changes=tuple(row.get("changes", ())),
            status=row.get("status"),
        )
        for resource, row in rows.items()
    }


@cache
def definitions() -> dict[str, Any]:
    """A List of the CustomResourceDefinitions whose samples are there."""
    return yaml.load((_FOLDER / "definitions.yaml").read_text(), yaml.CSafeLoader)


def notation(resource: ServedResource) -> str:
    """`deployments.apps`, `pods`."""
    return f"{resource.resource}.{resource.group}" if resource.group else resource.resource


class Filler:
    """Fills the placeholders of a sample; equal seeds give equal objects."""

    def __init__(self, seed: int, namespace: str) -> None:
        self.random = random.Random(seed)
        self._namespace = namespace
        self._serial = seed * 1_000

    def next_name(self, sample: Sample) -> str:
        """A name that no other object of this run has."""
        self._serial += 1
        return str(self.fill(sample.name))

    def fill(self, template: Any) -> Any:
        """A copy of a template with every placeholder replaced."""
        if isinstance(template, dict):
            return {self.fill(key): self.fill(value) for key, value in template.items()}
        if isinstance(template, list):
            return [self.fill(value) for value in template]
        if not isinstance(template, str):
            return template
        if template in _NUMBERS:
            return self.random.randint(*_NUMBERS[template])
        return _PLACEHOLDER.sub(self._value, template)

    def _value(self, match: re.Match[str]) -> str:
        key, serial = match[1], self._serial
        # "$nGi" and "$i.example" leave the rest of the word standing.
        for name, make in (
            ("namespace", lambda: self._namespace),
            ("proof", lambda: _proof()[1]),
            ("pkix", lambda: _proof()[0]),
            ("stub", _empty_signing_request),
            ("cidr", lambda: str(100 + serial % 100)),
            ("csr", _signing_request),
            ("ca", lambda: Authority().pair.certificate.decode()),
            ("hi", lambda: str(serial // 250 % 250)),
            ("lo", lambda: str(serial % 250)),
            ("i", lambda: str(serial)),
            ("n", lambda: str(self.random.randint(1, 9))),
            ("s", lambda: self.random.choice(_WORDS)),
        ):
            if key.startswith(name):
                return make() + key.removeprefix(name)
        raise ValueError(f"unknown placeholder ${key}")


def _signing_request() -> str:
    request = _request_of(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "one")]))
    return base64.b64encode(request.public_bytes(serialization.Encoding.PEM)).decode()


def _empty_signing_request() -> str:
    """As a kubelet makes it for a pod: of nobody, it proves that the key is had."""
    der = _request_of(x509.Name([])).public_bytes(serialization.Encoding.DER)
    return base64.b64encode(der).decode()


def _request_of(subject: x509.Name) -> x509.CertificateSigningRequest:
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder().subject_name(subject)
    return request.sign(key, hashes.SHA256())


@cache
def _proof() -> tuple[str, str]:
    """A public key, and the signature of the sample's podUID by its owner."""
    key = ed25519.Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return base64.b64encode(public).decode(), base64.b64encode(key.sign(b"pod-uid")).decode()
