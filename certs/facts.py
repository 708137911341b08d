"""What a serving certificate says of itself at one moment, as a value."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID

from certs.chain import explain_failure
from certs.names import from_alternative_names
from certs.pem import same_key

RENEW_AFTER: Final = 2 / 3  # of a lifetime, as cert-manager does: a third is left to notice

_SERVER_USAGES: Final = {
    ExtendedKeyUsageOID.SERVER_AUTH,
    ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,
}


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """The leaf, how it fits its key and its CA bundle, and how long it still lives."""

    subject: str
    issuer: str
    sans: tuple[str, ...]  # DNS names, then IP addresses
    not_before: datetime
    not_after: datetime
    fingerprint: str  # SHA-256 of the DER, lower-case hex
    signature_hash: str | None  # None: the algorithm has none of its own, as Ed25519
    for_servers: bool
    key_matches: bool | None  # None: the key could not be read
    chain_verifies: bool | None  # None: there was no readable CA bundle to verify against
    chain_failure: str | None  # why chain_verifies is False
    seconds_to_expiry: int  # negative after it

    @property
    def renew_from(self) -> datetime:
        """When this certificate is due for the next one."""
        return renew_from(self.not_before, self.not_after)


def renew_from(not_before: datetime, not_after: datetime) -> datetime:
    """When a certificate of this life is due for the next one."""
    return not_before + (not_after - not_before) * RENEW_AFTER


def gather_facts(
    chain: Sequence[x509.Certificate],
    key: PrivateKeyTypes | None,
    bundle: Sequence[x509.Certificate],
    at: datetime,
) -> CertificateFacts:
    """Facts of the first certificate of a chain; the others are what is sent along with it."""
    leaf, intermediates = chain[0], chain[1:]
    failure = explain_failure(leaf, intermediates, bundle, at) if bundle else None
    algorithm = leaf.signature_hash_algorithm
    return CertificateFacts(
        subject=leaf.subject.rfc4514_string(),
        issuer=leaf.issuer.rfc4514_string(),
        sans=from_alternative_names(leaf),
        not_before=leaf.not_valid_before_utc,
        not_after=leaf.not_valid_after_utc,
        fingerprint=leaf.fingerprint(hashes.SHA256()).hex(),
        signature_hash=None if algorithm is None else algorithm.name,
        for_servers=_for_servers(leaf),
        key_matches=None if key is None else same_key(leaf, key),
        chain_verifies=failure is None if bundle else None,
        chain_failure=failure,
        seconds_to_expiry=int((leaf.not_valid_after_utc - at).total_seconds()),
    )


def _for_servers(leaf: x509.Certificate) -> bool:
    """RFC 5280 4.2.1.12: a certificate that names no extended usage may be used for all."""
    try:
        usages = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    return not _SERVER_USAGES.isdisjoint(usages)
