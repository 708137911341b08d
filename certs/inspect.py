"""Look at a certificate, its key and its CA bundle: facts, and problems in plain words.

Reads   PEM bytes, `at`, and the names that clients dial when these are known
Result  facts (None when the certificate cannot be read) and problems; bad bytes never raise
Relies  on what Go's crypto/x509 asks of a webhook's certificate: see chain.py and problems.py
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from certs.errors import MalformedPEMError
from certs.facts import CertificateFacts, gather_facts
from certs.pem import read_certificates, read_key
from certs.problems import Problem, find_problems


@dataclass(frozen=True, slots=True)
class Inspection:
    """Facts and problems of one look."""

    facts: CertificateFacts | None
    problems: tuple[Problem, ...]

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems for which the pair must not be served."""
        return tuple(problem for problem in self.problems if problem.severity == "error")


def inspect(
    cert_pem: bytes,
    key_pem: bytes,
    ca_pem: bytes | None = None,
    *,
    at: datetime,
    names: Sequence[str] = (),
) -> Inspection:
    """Facts and problems of a pair; `ca_pem` None means that there is no bundle to verify with."""
    problems: list[Problem] = []
    chain = _read_chain(cert_pem, problems)
    key = _read_key(key_pem, problems)
    bundle = () if ca_pem is None else _read_bundle(ca_pem, problems)
    if not chain:
        return Inspection(None, tuple(problems))
    facts = gather_facts(chain, key, bundle, at)
    return Inspection(facts, (*problems, *find_problems(facts, at, names)))


def _read_chain(pem: bytes, problems: list[Problem]) -> tuple[x509.Certificate, ...]:
    try:
        return read_certificates(pem)
    except MalformedPEMError as error:
        message = f"the certificate is {error}: put the whole PEM file in its place"
        problems.append(Problem("certificate-unreadable", "error", "certificate", message))
        return ()


def _read_key(pem: bytes, problems: list[Problem]) -> PrivateKeyTypes | None:
    try:
        return read_key(pem)
    except MalformedPEMError as error:
        message = f"the private key is {error}: put the certificate's own key in its place"
        problems.append(Problem("key-unreadable", "error", "key", message))
        return None


def _read_bundle(pem: bytes, problems: list[Problem]) -> tuple[x509.Certificate, ...]:
    if not pem.strip():  # cert-manager leaves ca.crt empty when the issuer does not know its CA
        message = "the CA bundle is empty, so the chain was not verified: fill it or leave it out"
        problems.append(Problem("ca-empty", "warning", "ca", message))
        return ()
    try:
        return read_certificates(pem)
    except MalformedPEMError as error:
        message = f"the CA bundle is {error}: put the whole PEM file in its place"
        problems.append(Problem("ca-unreadable", "error", "ca", message))
        return ()
