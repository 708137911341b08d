"""Decide the next step to renew a certificate: at once (renew), or while replicas use it.

Reads   the contents of the Secret, the caBundle of every webhook, since when those have been seen
        unchanged, and `at`
Result  one step. The leader carries it out and asks again. The state is in the objects; only that
        time is not, so a new leader waits once more
Relies  on authorities that stay trusted until they expire, so it is not necessary to know what each
        replica serves

One authority signs every leaf. Its key is ca.key of the Secret; its certificate is in ca.crt and in
every caBundle. So a renewed leaf is one write, and no caBundle changes. A new authority is needed
if the present one is old, or its key is lost or belongs to no certificate of ca.crt. (`genguard
install` and earlier versions keep no key.) It must be trusted before it signs what is served:

    Write   add the authority to ca.crt, before those that are trusted already, and its key
    Spread  write ca.crt into every caBundle
    Wait    until the API servers use that bundle
    Write   replace the leaf by one that this authority signed; replicas load it

An API server uses its informer's copy of a registration (apiserver pkg/admission/configuration/
mutating_webhook_manager.go), usually less than a second old. If its watch is broken, it retries
after at most 30 s, or 60 s with jitter (client-go tools/cache/reflector.go, defaultBackoffMax), and
then it can hardly serve writes either. So we wait 30 s. An API server with an old copy would not
trust the new leaf, and apply failurePolicy. A new bundle makes a new client (apiserver
pkg/util/webhook/client.go, its cache key), so no connection keeps the old trust.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import Final, Literal, TypeAlias

from certs.files import CA_FILE, CA_KEY_FILE, CERT_FILE, KEY_FILE, PairSnapshot
from certs.inspect import CertificateFacts, inspect
from certs.issue import (
    AUTHORITY_NAME,
    FIRST_LEAF_LIFETIME,
    KeyPair,
    find_authority,
    issue,
    issue_authority,
)
from certs.names import LOOPBACK
from certs.pem import read_certificates, read_living, write_certificate

LONGEST_SPREAD: Final = timedelta(seconds=30)
_SHORTEST_SPREAD: Final = 1 / 20  # of the lifetime, where that is short
_MOST_TRUSTED: Final = 20
"""A bound: where ca.key is damaged again and again, each time an authority is added."""
_FORMER_FILES: Final = {"next.crt", "next.key"}
"""Where earlier versions kept a new leaf until it was trusted."""

Files: TypeAlias = Mapping[str, bytes]
"""The contents of a Secret by name: tls.crt, tls.key, ca.crt and ca.key. Others are kept."""


@dataclass(frozen=True, slots=True)
class Renewed:
    """The pair to use from now on; `reason` is empty if it is the given one."""

    pair: PairSnapshot
    reason: str


@dataclass(frozen=True, slots=True)
class Trust:
    """The caBundle of every webhook in PEM, and since when all were seen as they are."""

    bundles: tuple[bytes, ...]
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
class Spread:
    """Write this bundle into every webhook."""

    bundle: bytes


@dataclass(frozen=True, slots=True)
class Write:
    """Write these contents into the Secret.

    prepared  it has an authority that may sign, and every authority that is trusted
    promoted  it has a new leaf, which is served from now on
    tidied    it has no expired authority, and no file that is not used any more
    """

    done: Literal["prepared", "promoted", "tidied"]
    files: Files = field(repr=False)
    reason: str = ""


Step: TypeAlias = Wait | Leave | Spread | Write


def next_step(
    files: Files, trust: Trust, at: datetime, *, names: Sequence[str], lifetime: timedelta
) -> Step:
    """Return the next step; `names` are those that the API server uses, `lifetime` of a new leaf.

    Bad contents are a reason for a new leaf. Raises InvalidRequestError if a name is none, or if
    ca.key is somebody's own, of a type that cannot sign here.
    """
    served, trouble = _judge(files, at, names)
    if served is not None and not served.issuer.startswith(f"CN={AUTHORITY_NAME} "):
        return Leave(f"it is signed by {served.issuer}, and its issuer renews it")
    kept = {name: content for name, content in files.items() if name not in _FORMER_FILES}
    if not trouble:
        tidied = kept | {CA_FILE: _without_expired(files[CA_FILE], at)}
        if tidied != files:
            return Write("tidied", tidied)
        return _spread(files, trust) or Wait(_next_check(served, files[CA_FILE], at))
    # Registrations count, too: if the Secret was damaged, replicas still serve the old leaf, and
    # only the registrations have its authority.
    authority, bundle = choose_authority(files, at, trust.bundles)
    prepared = kept | {CA_FILE: bundle, CA_KEY_FILE: authority.key_pem}
    if prepared != files:
        return Write("prepared", prepared, trouble)
    if behind := _spread(files, trust):
        return behind
    ready = trust.since + min(LONGEST_SPREAD, lifetime * _SHORTEST_SPREAD)
    if trust.bundles and at < ready:
        return Wait(ready)
    leaf = issue(names=names, at=at, authority=authority, leaf_lifetime=lifetime).leaf
    return Write("promoted", kept | {CERT_FILE: leaf.cert_pem, KEY_FILE: leaf.key_pem}, trouble)


def choose_authority(
    files: Files, at: datetime, trusted: Sequence[bytes] = ()
) -> tuple[KeyPair, bytes]:
    """Return the authority of ca.key if it may still sign, else a new one, and the new ca.crt.

    In ca.crt it is the first, before those that are in ca.crt or trusted, until they expire.
    """
    bundles = (files.get(CA_FILE, b""), *trusted)
    living = [one for bundle in bundles for one in read_living(bundle, at)]
    found = find_authority(living, files.get(CA_KEY_FILE, b""), at)
    authority = issue_authority(at=at) if found is None else found
    bundle = dict.fromkeys((authority.cert_pem, *map(write_certificate, living)))
    return authority, b"".join(islice(bundle, _MOST_TRUSTED))


def _judge(files: Files, at: datetime, names: Sequence[str]) -> tuple[CertificateFacts | None, str]:
    """Return the facts of the leaf, and why it must be renewed; "" if it need not be."""
    pair = (files.get(name, b"") for name in (CERT_FILE, KEY_FILE, CA_FILE))
    found = inspect(*pair, at=at, names=(*names, *LOOPBACK))
    return found.facts, "; ".join(problem.message for problem in found.problems)


def _spread(files: Files, trust: Trust) -> Spread | None:
    bundle = files[CA_FILE]
    return Spread(bundle) if any(one != bundle for one in trust.bundles) else None


def _without_expired(bundle: bytes, at: datetime) -> bytes:
    """Remove expired authorities; return the same bytes if there are none."""
    living = read_living(bundle, at)
    if len(living) == len(read_certificates(bundle)):
        return bundle
    return b"".join(map(write_certificate, living))


def _next_check(served: CertificateFacts | None, bundle: bytes, at: datetime) -> datetime:
    """Return the time when the leaf is due, or an authority expires."""
    due = [] if served is None else [served.renew_from]
    ends = [one.not_valid_after_utc for one in read_living(bundle, at)]
    return min((one for one in (*due, *ends) if one > at), default=at)


def renew(
    pair: PairSnapshot | None,
    *,
    names: Sequence[str],
    at: datetime,
    leaf_lifetime: timedelta = FIRST_LEAF_LIFETIME,
) -> Renewed:
    """Return a pair that is good for these names: the given one, or a new one.

    A pair that is only old is kept: replacing it while it is in use takes the steps of next_step.
    The authority of a new one ends with its leaf, since nobody keeps its key.
    """
    ca_pem = (pair and pair.ca_pem) or b""
    if pair is None:
        reason = "there is none yet"
    elif pair.ca_pem is None:
        reason = "there is no bundle for it"
    else:
        found = inspect(pair.cert_pem, pair.key_pem, ca_pem, at=at, names=(*names, *LOOPBACK))
        if not found.errors and ca_pem.strip():
            return Renewed(pair, "")
        reason = "; ".join(problem.message for problem in found.problems)
    authority = issue_authority(at=at, lifetime=leaf_lifetime)
    leaf = issue(names=names, at=at, authority=authority, leaf_lifetime=leaf_lifetime).leaf
    bundle = authority.cert_pem + b"".join(map(write_certificate, read_living(ca_pem, at)))
    return Renewed(PairSnapshot(leaf.cert_pem, leaf.key_pem, bundle), reason)
