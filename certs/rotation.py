"""Decide the next step to renew a pair: at once (renew), or while replicas use it (next_step).

Reads   the contents of the Secret, the caBundle of every registration with the time since when it
        has been seen there, and `at`
Result  one step. The leader carries it out and asks again. The state is in the objects; only the
        times are not, so a new leader waits once more
Relies  on authorities that sign one leaf and expire with it. An expired authority has no valid
        leaf, so it is not necessary to know what each replica serves

    Prepare  add a new authority and leaf to the Secret, and the authority to ca.crt
    Spread   write ca.crt into every caBundle
    Wait     until the API servers use that bundle
    Promote  replace the old leaf by the new one; replicas load it
    Tidy     remove expired authorities from ca.crt; then Spread removes them from the caBundles

An API server uses its informer's copy of a registration (apiserver pkg/admission/configuration/
mutating_webhook_manager.go), usually less than a second old. If its watch is broken, it retries
after at most 30 s, or 60 s with jitter (client-go tools/cache/reflector.go, defaultBackoffMax), and
then it can hardly serve writes either. So we wait 30 s. An API server with an old copy would not
trust the new leaf, and apply failurePolicy. A new bundle makes a new client (apiserver
pkg/util/webhook/client.go, its cache key), so no connection keeps the old trust.

The key of a new authority signs once and is deleted: it cannot be stolen, and each pair has an
authority of its own. Pairs whose authority signs again are kept in files by ensure.py.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import Final, TypeAlias

from cryptography import x509

from certs.errors import MalformedPEMError
from certs.files import CA_FILE, CERT_FILE, KEY_FILE, PairSnapshot
from certs.inspect import CertificateFacts, inspect
from certs.issue import AUTHORITY_LIFETIME, AUTHORITY_NAME, issue, issue_authority
from certs.names import LOOPBACK
from certs.pem import read_certificates, write_certificate

NEXT_CERT_FILE: Final = "next.crt"
NEXT_KEY_FILE: Final = "next.key"
LONGEST_SPREAD: Final = timedelta(seconds=30)
_SHORTEST_SPREAD: Final = 1 / 20  # of the lifetime, where that is short
_MOST_TRUSTED: Final = 20
"""A bound: where the Secret is damaged again and again, each new pair adds an authority."""

Files: TypeAlias = Mapping[str, bytes]
"""The contents of a Secret by name: tls.crt, tls.key, ca.crt, and during a renewal next.crt and
next.key. Unknown names are kept."""


@dataclass(frozen=True, slots=True)
class Renewed:
    """The pair to use from now on; `reason` is empty if it is the given one."""

    pair: PairSnapshot
    reason: str


@dataclass(frozen=True, slots=True)
class Trusting:
    """One webhook of a registration: its caBundle in PEM, and since when it was seen there."""

    name: str
    bundle: bytes
    since: datetime


@dataclass(frozen=True, slots=True)
class Wait:
    """Do nothing before this time, unless something changes."""

    until: datetime


@dataclass(frozen=True, slots=True)
class Leave:
    """Another program renews this pair: serve it, never replace it."""

    reason: str


@dataclass(frozen=True, slots=True)
class Prepare:
    """Add a new pair; `bundle` holds the authorities that stay trusted meanwhile."""

    bundle: bytes
    reason: str


@dataclass(frozen=True, slots=True)
class Spread:
    """Write this bundle into these webhooks."""

    bundle: bytes
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Promote:
    """Write this into the Secret: the new leaf is served from now on."""

    files: Files = field(repr=False)


@dataclass(frozen=True, slots=True)
class Tidy:
    """Write this into the Secret: it has no expired parts."""

    files: Files = field(repr=False)


Step: TypeAlias = Wait | Leave | Prepare | Spread | Promote | Tidy


def next_step(
    files: Files, trusting: Sequence[Trusting], at: datetime, *, names: Sequence[str]
) -> Step:
    """Return the next step; `names` are the names that the API server uses.

    Bad contents never raise: they are a reason for a new pair.
    """
    served, trouble = _judge(files, CERT_FILE, KEY_FILE, at, names)
    if served is not None and not served.issuer.startswith(f"CN={AUTHORITY_NAME} "):
        return Leave(f"it is signed by {served.issuer}, and its issuer renews it")
    staged, unfit = _judge(files, NEXT_CERT_FILE, NEXT_KEY_FILE, at, names)
    if trouble and (unfit or _is_forgotten(files, trusting, at)):
        return Prepare(_still_trusted(files, trusting, at), trouble)
    bundle = files[CA_FILE]
    tidy = _without_expired(bundle, at)
    if unfit and (NEXT_CERT_FILE in files or NEXT_KEY_FILE in files or tidy != bundle):
        return Tidy({**_without_next(files), CA_FILE: tidy})
    behind = tuple(one.name for one in trusting if one.bundle != bundle)
    if behind:
        return Spread(bundle, behind)
    if staged is None or unfit:
        return Wait(_next_check(served, bundle, at))
    ready = max((one.since + _spread(staged) for one in trusting), default=at)
    if at < ready:
        return Wait(ready)
    pair = {CERT_FILE: files[NEXT_CERT_FILE], KEY_FILE: files[NEXT_KEY_FILE]}
    return Promote({**_without_next(files), **pair})


def stage(
    files: Files, step: Prepare, *, names: Sequence[str], at: datetime, lifetime: timedelta
) -> Files:
    """Return the contents of the Secret with a new pair beside the one in use.

    The key of its authority is deleted after signing.
    """
    issued = issue(
        names=names,
        at=at,
        authority=issue_authority(at=at, lifetime=lifetime),
        leaf_lifetime=lifetime,
    )
    return {
        **files,
        CA_FILE: issued.authority.cert_pem + step.bundle,
        NEXT_CERT_FILE: issued.leaf.cert_pem,
        NEXT_KEY_FILE: issued.leaf.key_pem,
    }


def _judge(
    files: Files, cert_file: str, key_file: str, at: datetime, names: Sequence[str]
) -> tuple[CertificateFacts | None, str]:
    """Return the facts of a pair, and why it must be renewed; "" if it need not be."""
    found = inspect(
        files.get(cert_file, b""),
        files.get(key_file, b""),
        files.get(CA_FILE, b""),
        at=at,
        names=(*names, *LOOPBACK),
    )
    return found.facts, "; ".join(problem.message for problem in found.problems)


def _still_trusted(files: Files, trusting: Sequence[Trusting], at: datetime) -> bytes:
    """Return the authorities that may have signed a certificate in use.

    Registrations count, too: if the Secret was damaged, replicas still serve the old pair, and only
    the registrations have its authority.
    """
    bundles = (files.get(CA_FILE, b""), *(one.bundle for one in trusting))
    living = dict.fromkeys(one for bundle in bundles for one in _living(bundle, at))
    return b"".join(islice(living, _MOST_TRUSTED))


def _is_forgotten(files: Files, trusting: Sequence[Trusting], at: datetime) -> bool:
    """Whether ca.crt lacks an authority that a registration trusts."""
    known = [*_living(files.get(CA_FILE, b""), at)]
    trusted = {one for each in trusting for one in _living(each.bundle, at)}
    return len(known) < _MOST_TRUSTED and not trusted.issubset(known)


def _without_expired(bundle: bytes, at: datetime) -> bytes:
    """Remove expired authorities; return the same bytes if there are none."""
    if all(at < one.not_valid_after_utc for one in _read(bundle)):
        return bundle
    return b"".join(_living(bundle, at))


def _living(bundle: bytes, at: datetime) -> Iterator[bytes]:
    """Yield each authority that has not expired, in PEM."""
    return (write_certificate(one) for one in _read(bundle) if at < one.not_valid_after_utc)


def _read(bundle: bytes) -> Iterator[x509.Certificate]:
    try:
        yield from read_certificates(bundle)
    except MalformedPEMError:
        return


def _without_next(files: Files) -> dict[str, bytes]:
    return {
        name: content
        for name, content in files.items()
        if name not in {NEXT_CERT_FILE, NEXT_KEY_FILE}
    }


def _spread(staged: CertificateFacts) -> timedelta:
    return min(LONGEST_SPREAD, (staged.not_after - staged.not_before) * _SHORTEST_SPREAD)


def _next_check(served: CertificateFacts | None, bundle: bytes, at: datetime) -> datetime:
    """Return the time when the pair is due, or an authority expires."""
    ends = [one.not_valid_after_utc for one in _read(bundle)]
    due = [] if served is None else [served.renew_from]
    return min((one for one in (*due, *ends) if one > at), default=at)


def renew(
    pair: PairSnapshot | None,
    *,
    names: Sequence[str],
    at: datetime,
    leaf_lifetime: timedelta = AUTHORITY_LIFETIME,
) -> Renewed:
    """Return a pair that is good for these names: the given one, or a new one.

    A pair that is only old is kept: replacing it while it is in use takes the steps of next_step.
    """
    if pair is None:
        reason = "there is none yet"
    elif pair.ca_pem is None:
        reason = "there is no bundle for it"
    else:
        found = inspect(pair.cert_pem, pair.key_pem, pair.ca_pem, at=at, names=(*names, *LOOPBACK))
        if not found.errors and found.facts is not None and found.facts.chain_verifies:
            return Renewed(pair, "")
        reason = "; ".join(problem.message for problem in found.problems)
    issued = issue(names=names, at=at, leaf_lifetime=leaf_lifetime)
    bundle = issued.authority.cert_pem + b"".join(_living((pair and pair.ca_pem) or b"", at))
    return Renewed(PairSnapshot(issued.leaf.cert_pem, issued.leaf.key_pem, bundle), reason)
