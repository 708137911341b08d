"""Inspect a certificate with its key and CA bundle: return details and problems.

Reads   PEM bytes, `at`, and the names that clients use, where they are known
Result  details (None if the certificate cannot be read) and problems; bad bytes never raise
Relies  on signatures alone where a chain is followed: the API server checks it by all rules of Go's
        crypto/x509. cryptography's own verifier follows the rules of the public web, and refuses
        certificates that Go accepts

A problem says what is wrong, where, and what to do. An error means that the API server would refuse
the pair, so it must not be served; a warning may become an error. Messages hold no running times,
so that a log can drop repetitions.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias, TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.x509.oid import ExtendedKeyUsageOID

from certs.issue import alternative_names, covers, renew_from
from certs.pem import MalformedPEMError, is_authority, read_certificates, read_key, same_key

T = TypeVar("T")
Part: TypeAlias = Literal["certificate", "key", "ca"]
Severity: TypeAlias = Literal["error", "warning"]

UNKNOWN_SIGNER: Final = "no certificate in the CA bundle signed it"
_SERVER_USAGES: Final = {
    ExtendedKeyUsageOID.SERVER_AUTH,
    ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem, and which of the three inputs has it."""

    part: Part
    message: str
    severity: Severity = "error"


@dataclass(frozen=True, slots=True)
class CertificateDetails:
    """The details of a leaf certificate."""

    issuer: str
    not_after: datetime
    fingerprint: str  # SHA-256 of the DER, lower-case hex


@dataclass(frozen=True, slots=True)
class Inspection:
    """The details and problems of a pair."""

    details: CertificateDetails | None
    problems: tuple[Problem, ...]

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems because of which the pair must not be served."""
        return tuple(problem for problem in self.problems if problem.severity == "error")


def inspect(
    cert_pem: bytes,
    key_pem: bytes,
    ca_pem: bytes | None = None,
    *,
    at: datetime,
    names: Sequence[str] = (),
) -> Inspection:
    """Return details and problems of a pair; without `ca_pem` no signature is checked."""
    problems: list[Problem] = []

    def read(part: Part, named: str, pem: bytes, how: Callable[[bytes], T]) -> T | None:
        try:
            return how(pem)
        except MalformedPEMError as error:
            hint = "certificate's own key" if part == "key" else "complete PEM file"
            problems.append(Problem(part, f"the {named} is {error}: put the {hint} there"))
            return None

    chain = read("certificate", "certificate", cert_pem, read_certificates)
    key = read("key", "private key", key_pem, read_key)
    bundle: tuple[x509.Certificate, ...] = ()
    if ca_pem is not None and not ca_pem.strip():
        # cert-manager leaves ca.crt empty when the issuer does not know its CA.
        message = "the CA bundle is empty, so the chain was not verified: fill it or leave it out"
        problems.append(Problem("ca", message, "warning"))
    elif ca_pem is not None:
        bundle = read("ca", "CA bundle", ca_pem, read_certificates) or ()
    if not chain:
        return Inspection(None, tuple(problems))
    leaf, *between = chain
    fingerprint = leaf.fingerprint(hashes.SHA256()).hex()
    if key is not None and not same_key(leaf, key):
        message = f"the private key does not belong to the certificate {fingerprint[:16]}: "
        problems.append(Problem("key", f"{message}put its own key there"))
    if bundle and (failure := explain_failure(leaf, between, bundle, at)):
        message = f"the certificate does not verify against the CA bundle, {failure}: issue it "
        message += "from an authority in the bundle, or add its authority there"
        problems.append(Problem("certificate", message))
    problems += _of_time(leaf, at)
    problems += (Problem("certificate", f"the certificate {text}") for text in _of_use(leaf, names))
    found = CertificateDetails(leaf.issuer.rfc4514_string(), leaf.not_valid_after_utc, fingerprint)
    return Inspection(found, tuple(problems))


def explain_failure(
    leaf: x509.Certificate,
    intermediates: Sequence[x509.Certificate],
    bundle: Sequence[x509.Certificate],
    at: datetime,
) -> str | None:
    """Return why no authority of the bundle vouches for the leaf; None if one does.

    It may do so through intermediates, which are sent with the leaf. A leaf that is in the bundle
    is trusted.
    """
    if leaf in bundle:
        return None
    trusted = list(bundle)
    for intermediate in (*intermediates, *intermediates):  # in whatever order they are sent
        if intermediate not in trusted and any(_signed(intermediate, signer) for signer in trusted):
            trusted.append(intermediate)
    objections = [_objection(authority, at) for authority in trusted if _signed(leaf, authority)]
    return None if "" in objections else next(iter(objections), UNKNOWN_SIGNER)


def _signed(certificate: x509.Certificate, signer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(signer)
    except (InvalidSignature, ValueError, TypeError, UnsupportedAlgorithm):
        return False
    return True


def _objection(signer: x509.Certificate, at: datetime) -> str:
    name = signer.subject.rfc4514_string()
    if at >= signer.not_valid_after_utc:
        return f"its authority {name} expired at {signer.not_valid_after_utc:%FT%TZ}"
    return "" if is_authority(signer) else f"its authority {name} is not marked as a CA"


def _of_time(leaf: x509.Certificate, at: datetime) -> Iterator[Problem]:
    begins, ends = leaf.not_valid_before_utc, leaf.not_valid_after_utc
    due = renew_from(begins, ends)
    if at >= ends:
        yield Problem("certificate", f"the certificate expired at {ends:%FT%TZ}: issue a new one")
    elif at < begins:
        message = f"the certificate is not valid before {begins:%FT%TZ}: check the clock of this "
        yield Problem("certificate", f"{message}machine, or wait")
    elif at >= due:
        message = f"the certificate expires at {ends:%FT%TZ} and was due for renewal from "
        yield Problem("certificate", f"{message}{due:%FT%TZ}: issue a new one", "warning")


def _of_use(leaf: x509.Certificate, names: Sequence[str]) -> Iterator[str]:
    sans = alternative_names(leaf)
    if not sans:
        yield (
            "has no names in subjectAltName, and Go ignores the common name: "
            "issue one with the Service's name, <service>.<namespace>.svc"
        )
    elif missing := [name for name in names if not covers(sans, name)]:
        yield (
            f"does not cover {', '.join(missing)}, only {', '.join(sans)}: "
            "issue one with the names that clients use"
        )
    try:
        usages = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        usages = None  # without extended usages any use is allowed (RFC 5280 4.2.1.12)
    if usages is not None and _SERVER_USAGES.isdisjoint(usages):
        yield "is not for servers: issue one with extended key usage serverAuth"
