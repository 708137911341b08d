"""Inspect a certificate with its key and CA bundle: return facts and problems.

Reads   PEM bytes, `at`, and the names that clients use, where they are known
Result  facts (None if the certificate cannot be read) and problems; bad bytes never raise
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

from certs.issue import covers, from_alternative_names, renew_from
from certs.pem import MalformedPEMError, is_authority, read_certificates, read_key, same_key

T = TypeVar("T")
Part: TypeAlias = Literal["certificate", "key", "ca"]

Severity: TypeAlias = Literal["error", "warning"]

UNKNOWN_SIGNER: Final = "no certificate in the CA bundle signed it"
_SERVER_USAGES: Final = {
    ExtendedKeyUsageOID.SERVER_AUTH,
    ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,
}

_REFUSED_HASHES: Final = {"md5", "sha1"}  # Go 1.18 and newer verify neither


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem, and which of the three inputs has it."""

    code: str
    severity: Severity
    part: Part
    message: str


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """The facts of a leaf certificate: names, times, and whether key and CA bundle match."""

    subject: str
    issuer: str
    sans: tuple[str, ...]  # DNS names, then IP addresses
    not_before: datetime
    not_after: datetime
    fingerprint: str  # SHA-256 of the DER, lower-case hex
    key_matches: bool | None  # None: the key could not be read
    chain_failure: str | None  # why no authority of the bundle vouches for it

    @property
    def renew_from(self) -> datetime:
        """The time from which the certificate should be renewed."""
        return renew_from(self.not_before, self.not_after)


@dataclass(frozen=True, slots=True)
class Inspection:
    """The facts and problems of a pair."""

    facts: CertificateFacts | None
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
    """Return facts and problems of a pair; without `ca_pem` no signature is checked."""
    problems: list[Problem] = []

    def read(part: Part, named: str, pem: bytes, how: Callable[[bytes], T]) -> T | None:
        try:
            return how(pem)
        except MalformedPEMError as error:
            hint = "certificate's own key" if part == "key" else "complete PEM file"
            message = f"the {named} is {error}: put the {hint} there"
            problems.append(Problem(f"{part}-unreadable", "error", part, message))
            return None

    chain = read("certificate", "certificate", cert_pem, read_certificates)
    key = read("key", "private key", key_pem, read_key)
    bundle: tuple[x509.Certificate, ...] = ()
    if ca_pem is not None and not ca_pem.strip():
        # cert-manager leaves ca.crt empty when the issuer does not know its CA.
        message = "the CA bundle is empty, so the chain was not verified: fill it or leave it out"
        problems.append(Problem("ca-empty", "warning", "ca", message))
    elif ca_pem is not None:
        bundle = read("ca", "CA bundle", ca_pem, read_certificates) or ()
    if not chain:
        return Inspection(None, tuple(problems))
    leaf, *between = chain
    facts = CertificateFacts(
        subject=leaf.subject.rfc4514_string(),
        issuer=leaf.issuer.rfc4514_string(),
        sans=from_alternative_names(leaf),
        not_before=leaf.not_valid_before_utc,
        not_after=leaf.not_valid_after_utc,
        fingerprint=leaf.fingerprint(hashes.SHA256()).hex(),
        key_matches=None if key is None else same_key(leaf, key),
        chain_failure=explain_failure(leaf, between, bundle, at) if bundle else None,
    )
    problems += (*_of_pair(facts), *_of_time(facts, at), *_of_use(leaf, facts.sans, names))
    return Inspection(facts, tuple(problems))


def _for_servers(leaf: x509.Certificate) -> bool:
    """Whether servers may use it; without extended usages any use is (RFC 5280 4.2.1.12)."""
    try:
        usages = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    return not _SERVER_USAGES.isdisjoint(usages)


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
    for one in (*intermediates, *intermediates):  # in whatever order they are sent
        if one not in trusted and any(_signed(one, signer) for signer in trusted):
            trusted.append(one)
    objections = [_objection(one, at) for one in trusted if _signed(leaf, one)]
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


def _of_pair(facts: CertificateFacts) -> Iterator[Problem]:
    if facts.key_matches is False:
        yield Problem(
            "key-mismatch",
            "error",
            "key",
            f"the private key does not belong to the certificate {facts.fingerprint[:16]}: "
            "put its own key there",
        )
    if facts.chain_failure is not None:
        yield _error(
            "chain-unverified",
            f"does not verify against the CA bundle, {facts.chain_failure}: "
            "issue it from an authority in the bundle, or add its authority there",
        )


def _of_time(facts: CertificateFacts, at: datetime) -> Iterator[Problem]:
    begins, ends, due = facts.not_before, facts.not_after, facts.renew_from
    if at >= ends:
        yield _error("expired", f"expired at {ends:%FT%TZ}: issue a new one")
    elif at < begins:
        yield _error(
            "not-yet-valid",
            f"is not valid before {begins:%FT%TZ}: check the clock of this machine, or wait",
        )
    elif at >= due:
        yield Problem(
            "near-expiry",
            "warning",
            "certificate",
            f"the certificate expires at {ends:%FT%TZ} and was due for renewal from "
            f"{due:%FT%TZ}: issue a new one",
        )


def _of_use(leaf: x509.Certificate, sans: Sequence[str], names: Sequence[str]) -> Iterator[Problem]:
    if not sans:
        yield _error(
            "no-names",
            "has no names in subjectAltName, and Go ignores the common name: "
            "issue one with the Service's name, <service>.<namespace>.svc",
        )
    elif missing := [name for name in names if not covers(sans, name)]:
        yield _error(
            "name-missing",
            f"does not cover {', '.join(missing)}, only {', '.join(sans)}: "
            "issue one with the names that clients use",
        )
    if not _for_servers(leaf):
        yield _error(
            "not-for-servers", "is not for servers: issue one with extended key usage serverAuth"
        )
    algorithm = leaf.signature_hash_algorithm  # None: it has no separate hash, as Ed25519
    if algorithm is not None and algorithm.name in _REFUSED_HASHES:
        yield _error(
            "refused-signature", f"is signed with {algorithm.name}: issue one with SHA-256"
        )


def _error(code: str, predicate: str) -> Problem:
    return Problem(code, "error", "certificate", f"the certificate {predicate}")
