"""Keep a working pair that is a value: what a Secret holds, say, or nothing yet.

Reads   the pair, the names that clients dial, and `at`
Result  the same pair while it is good, else a new authority and leaf
Relies  on the bundle: authorities of the old one that still live stay in the new one, after the
        new authority, so that a leaf of either verifies while the change spreads

The authority's key signs once and is forgotten: nobody can steal it, and the next pair has a new
authority. Files with a key that signs again are kept by `ensure`. A pair that is only old is kept:
to change it while it is in use takes more than one step, see rotation.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from certs.errors import MalformedPEMError
from certs.files import PairSnapshot
from certs.inspect import inspect
from certs.issue import AUTHORITY_LIFETIME, issue
from certs.names import LOOPBACK
from certs.pem import read_certificates, write_certificate


@dataclass(frozen=True, slots=True)
class Renewed:
    """The pair to use from now on; `reason` is empty when it is the one that was given."""

    pair: PairSnapshot
    reason: str


def renew(
    pair: PairSnapshot | None,
    *,
    names: Sequence[str],
    at: datetime,
    leaf_lifetime: timedelta = AUTHORITY_LIFETIME,
) -> Renewed:
    """A pair that is good for these names; by default it lives as long as its authority."""
    if pair is None:
        reason = "there is none yet"
    elif pair.ca_pem is None:
        reason = "there is no bundle to know it by"
    else:
        found = inspect(pair.cert_pem, pair.key_pem, pair.ca_pem, at=at, names=(*names, *LOOPBACK))
        if not found.errors and found.facts is not None and found.facts.chain_verifies:
            return Renewed(pair, "")
        reason = "; ".join(problem.message for problem in found.problems)
    issued = issue(names=names, at=at, leaf_lifetime=leaf_lifetime)
    bundle = issued.authority.cert_pem + _living(pair, at)
    return Renewed(PairSnapshot(issued.leaf.cert_pem, issued.leaf.key_pem, bundle), reason)


def _living(pair: PairSnapshot | None, at: datetime) -> bytes:
    try:
        bundle = read_certificates((pair.ca_pem if pair else None) or b"")
    except MalformedPEMError:
        return b""
    return b"".join(write_certificate(one) for one in bundle if at < one.not_valid_after_utc)
