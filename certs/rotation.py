"""Decide the next step by which a pair that replicas share is renewed while it is in use.

Reads   what the Secret holds, the caBundle of every registration with the time since when it has
        been seen there, and `at`
Result  one step; whoever leads carries it out and looks again. All that it decides by is in the
        objects, but for the times: who comes anew waits once more, and nothing else is lost
Relies  on authorities that sign one leaf and end with it: one that has ended has no leaf that is
        still valid, so that nobody has to know what each replica serves

    Prepare  a new authority and leaf are put beside the pair, the authority into ca.crt as well
    Spread   every caBundle becomes ca.crt
    Wait     until the API servers go by that bundle
    Promote  the new leaf takes the place of the old one, and replicas load it
    Tidy     authorities that have ended leave ca.crt, and then by Spread the caBundles

An API server goes by its informer's copy (apiserver pkg/admission/configuration/
mutating_webhook_manager.go), which follows a write within a second. When its watch is broken it
looks again after at most 30 s, or 60 s by bad luck (client-go tools/cache/reflector.go,
defaultBackoffMax and its jitter), and then it can hardly serve writes either. So 30 s are waited.
An API server with the old copy would see a leaf that it does not trust, and go by failurePolicy.
A new bundle is a new client (apiserver pkg/util/webhook/client.go, its cache key): no connection
carries the old trust along.
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
_SHORTEST_SPREAD: Final = 1 / 20  # of a life that is so short that 30 s are much of it
_MOST_TRUSTED: Final = 20
"""Where the Secret is spoilt again and again, each new pair has an authority of its own."""

Files: TypeAlias = Mapping[str, bytes]
"""What a Secret holds, by name: tls.crt, tls.key, ca.crt, and while a pair is renewed next.crt and
next.key. Names that are not known here stay as they are."""


@dataclass(frozen=True, slots=True)
class Renewed:
    """The pair to use from now on; `reason` is empty when it is the one that was given."""

    pair: PairSnapshot
    reason: str


@dataclass(frozen=True, slots=True)
class Trusting:
    """One webhook of a registration: its bundle in PEM, and since when it was seen to hold it."""

    name: str
    bundle: bytes
    since: datetime


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing is to be done before this time, unless something changes."""

    until: datetime


@dataclass(frozen=True, slots=True)
class Leave:
    """Somebody else sees to this pair; it is served, and never replaced."""

    reason: str


@dataclass(frozen=True, slots=True)
class Prepare:
    """A new pair is due; `bundle` are the authorities that stay trusted meanwhile."""

    bundle: bytes
    reason: str


@dataclass(frozen=True, slots=True)
class Spread:
    """These webhooks are to hold this bundle."""

    bundle: bytes
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Promote:
    """The Secret is to hold this: the new leaf is the one to serve."""

    files: Files = field(repr=False)


@dataclass(frozen=True, slots=True)
class Tidy:
    """The Secret is to hold this: nothing that is of no use any more."""

    files: Files = field(repr=False)


Step: TypeAlias = Wait | Leave | Prepare | Spread | Promote | Tidy


def next_step(
    files: Files, trusting: Sequence[Trusting], at: datetime, *, names: Sequence[str]
) -> Step:
    """What is to be done now; `names` are those that the API server dials.

    Bad contents never raise: they are a reason for a new pair.
    """
    served, trouble = _judge(files, CERT_FILE, KEY_FILE, at, names)
    if served is not None and not served.issuer.startswith(f"CN={AUTHORITY_NAME} "):
        return Leave(f"it is signed by {served.issuer}: who issued it renews it")
    staged, unfit = _judge(files, NEXT_CERT_FILE, NEXT_KEY_FILE, at, names)
    if trouble and (unfit or _is_forgotten(files, trusting, at)):
        return Prepare(_still_trusted(files, trusting, at), trouble)
    bundle = files[CA_FILE]
    tidy = _without_ended(bundle, at)
    if unfit and (NEXT_CERT_FILE in files or NEXT_KEY_FILE in files or tidy != bundle):
        return Tidy({**_without_next(files), CA_FILE: tidy})
    behind = tuple(one.name for one in trusting if one.bundle != bundle)
    if behind:
        return Spread(bundle, behind)
    if staged is None or unfit:
        return Wait(_next_look(served, bundle, at))
    ready = max((one.since + _spread(staged) for one in trusting), default=at)
    if at < ready:
        return Wait(ready)
    pair = {CERT_FILE: files[NEXT_CERT_FILE], KEY_FILE: files[NEXT_KEY_FILE]}
    return Promote({**_without_next(files), **pair})


def stage(
    files: Files, step: Prepare, *, names: Sequence[str], at: datetime, lifetime: timedelta
) -> Files:
    """The Secret with a new pair beside the one that is served.

    The key of its authority is forgotten: nobody can steal it, and the next pair has another.
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
    """Facts of a pair, and why another one should take its place; "": it is good and young."""
    found = inspect(
        files.get(cert_file, b""),
        files.get(key_file, b""),
        files.get(CA_FILE, b""),
        at=at,
        names=(*names, *LOOPBACK),
    )
    return found.facts, "; ".join(problem.message for problem in found.problems)


def _still_trusted(files: Files, trusting: Sequence[Trusting], at: datetime) -> bytes:
    """Authorities that may have signed what replicas serve.

    The registrations count as well: where the Secret was spoilt, replicas serve on what they had,
    and its authority is nowhere else.
    """
    bundles = (files.get(CA_FILE, b""), *(one.bundle for one in trusting))
    living = dict.fromkeys(one for bundle in bundles for one in _living(bundle, at))
    return b"".join(islice(living, _MOST_TRUSTED))


def _is_forgotten(files: Files, trusting: Sequence[Trusting], at: datetime) -> bool:
    """Whether an authority that is trusted, and may be in use, is missing in ca.crt."""
    known = [*_living(files.get(CA_FILE, b""), at)]
    trusted = {one for each in trusting for one in _living(each.bundle, at)}
    return len(known) < _MOST_TRUSTED and not trusted.issubset(known)


def _without_ended(bundle: bytes, at: datetime) -> bytes:
    """The same where none has ended."""
    if all(at < one.not_valid_after_utc for one in _read(bundle)):
        return bundle
    return b"".join(_living(bundle, at))


def _living(bundle: bytes, at: datetime) -> Iterator[bytes]:
    """Each authority that has not ended, in PEM."""
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


def _next_look(served: CertificateFacts | None, bundle: bytes, at: datetime) -> datetime:
    """When the pair is due, or an authority ends."""
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
    bundle = issued.authority.cert_pem + b"".join(_living((pair and pair.ca_pem) or b"", at))
    return Renewed(PairSnapshot(issued.leaf.cert_pem, issued.leaf.key_pem, bundle), reason)
