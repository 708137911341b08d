"""Decide whether a certificate chains to a CA bundle, as the API server's client would.

Reads   the leaf, the certificates sent with it, the bundle, and `at`
Result  None when some path holds, else one sentence that names the nearest miss
Relies  on Go's crypto/x509 Verify: every path is tried, so a bundle may hold the old and the new
        authority at once; a leaf that is itself in the bundle is trusted as it is

cryptography's own verifier follows the rules of the public web, which refuse certificates that
Go accepts (a leaf that is its own anchor, an authority without key identifiers), and a pair that
works must not be refused.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

UNKNOWN_SIGNER: Final = "no certificate in the CA bundle signed it"

_LONGEST: Final = 5  # authorities between a leaf and its anchor; no real chain has as many


def explain_failure(
    leaf: x509.Certificate,
    intermediates: Sequence[x509.Certificate],
    bundle: Sequence[x509.Certificate],
    at: datetime,
) -> str | None:
    """Why the leaf does not verify, or None when it does."""
    if leaf in bundle:
        return None
    misses: list[str] = []
    for objection in _paths(leaf, tuple(intermediates), tuple(bundle), at, below=0):
        if objection is None:
            return None
        misses.append(objection)
    return misses[0] if misses else UNKNOWN_SIGNER


def _paths(
    certificate: x509.Certificate,
    intermediates: tuple[x509.Certificate, ...],
    bundle: tuple[x509.Certificate, ...],
    at: datetime,
    below: int,
) -> Iterator[str | None]:
    """One answer a path: None where it ends well, else what is wrong with it."""
    for anchor in bundle:
        if _signed(certificate, anchor):
            yield _objection(anchor, at, below)
    for between in intermediates if below < _LONGEST else ():
        if _signed(certificate, between):
            objection = _objection(between, at, below)
            if objection is not None:
                yield objection
                continue
            others = tuple(other for other in intermediates if other != between)
            yield from _paths(between, others, bundle, at, below + 1)


def _signed(certificate: x509.Certificate, signer: x509.Certificate) -> bool:
    if certificate.issuer != signer.subject:
        return False
    try:
        certificate.verify_directly_issued_by(signer)
    except (InvalidSignature, ValueError, TypeError, UnsupportedAlgorithm):
        return False
    return True


def _objection(signer: x509.Certificate, at: datetime, below: int) -> str | None:
    name = signer.subject.rfc4514_string()
    if at >= signer.not_valid_after_utc:
        return f"its authority {name} expired at {signer.not_valid_after_utc:%FT%TZ}"
    if at < signer.not_valid_before_utc:
        return f"its authority {name} is not valid before {signer.not_valid_before_utc:%FT%TZ}"
    try:
        constraints = signer.extensions.get_extension_for_class(x509.BasicConstraints).value
    except x509.ExtensionNotFound:
        return f"its authority {name} is not marked as a CA"
    if not constraints.ca:
        return f"its authority {name} is not marked as a CA"
    if constraints.path_length is not None and below > constraints.path_length:
        return f"its authority {name} allows {constraints.path_length} authorities below it"
    return None
