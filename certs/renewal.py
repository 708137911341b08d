"""Renew a pair that is missing, old or wrong: in a folder, in a Secret, or to be installed.

Acts on only pairs that it made. One whose issuer is another, or a folder without ca.key, belongs to
        somebody else: it is served or refused, never replaced
Relies  on ca.crt as a bundle, newest authority first. The previous ones stay in it until they
        expire, so certificates of all verify while a change spreads

An authority lives for ten years and signs every leaf, so a renewed leaf is one write, and no
caBundle changes. Another authority is made only where its key is lost (`genguard install` keeps
none), or it is old itself. Then it goes into ca.crt first, and signs once every caBundle holds it.
"""

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Final, Literal, TypeAlias

from certs.files import (
    CA_FILE,
    CA_KEY_FILE,
    CERT_FILE,
    KEY_FILE,
    PairFiles,
    PairSnapshot,
    read_file,
    write_files,
)
from certs.inspect import inspect
from certs.issue import (
    AUTHORITY_NAME,
    FIRST_LEAF_LIFETIME,
    LEAF_LIFETIME,
    LOOPBACK,
    KeyPair,
    find_authority,
    issue,
    issue_authority,
)
from certs.pem import (
    FolderNotWritableError,
    PairAbsentError,
    UnusablePairError,
    read_living,
    write_certificate,
)

_MOST_TRUSTED: Final = 20
"""A bound: where ca.key is damaged again and again, each time an authority is added."""

Files: TypeAlias = Mapping[str, bytes]
"""The contents of a Secret by name: tls.crt, tls.key, ca.crt and ca.key. Others are kept."""


@dataclass(frozen=True, slots=True)
class Renewed:
    """The pair to use from now on; `reason` is empty if it is the given one."""

    pair: PairSnapshot
    reason: str


@dataclass(frozen=True, slots=True)
class Due:
    """What a Secret is to hold; `reason` is empty if that is what it holds.

    left       why this pair is another program's, "" if it is ours
    is_usable  what it holds may be served, and can be trusted by its ca.crt
    """

    files: Files = field(repr=False)
    reason: str = ""
    left: str = ""
    is_usable: bool = True


def renewal(
    files: Files,
    trusted: Sequence[bytes],
    at: datetime,
    *,
    names: Sequence[str],
    lifetime: timedelta,
    may_sign: bool = True,
) -> Due:
    """Return what a Secret is to hold. Bad contents are a reason for a new leaf.

    trusted   the caBundle of every webhook in PEM
    names     those that the API server uses; `lifetime` is that of a new leaf
    may_sign  the API servers have seen what is in `trusted`
    Raises InvalidRequestError if a name is none, or if ca.key cannot sign here.
    """
    pair = (files.get(name, b"") for name in (CERT_FILE, KEY_FILE, CA_FILE))
    found = inspect(*pair, at=at, names=(*names, *LOOPBACK))
    if found.facts is not None and not found.facts.issuer.startswith(f"CN={AUTHORITY_NAME} "):
        issuer = found.facts.issuer
        return Due(files, left=f"it is signed by {issuer}, and its issuer renews it")
    if not found.problems:
        return Due(files)
    # Registrations count, too: if the Secret was damaged, replicas still serve the old leaf, and
    # only the registrations have its authority.
    authority, bundle = choose_authority(files, at, trusted)
    wanted = {**files, CA_FILE: bundle, CA_KEY_FILE: authority.key_pem}
    if may_sign and all(authority.cert_pem in one for one in trusted):
        leaf = issue(names=names, at=at, authority=authority, leaf_lifetime=lifetime).leaf
        wanted |= {CERT_FILE: leaf.cert_pem, KEY_FILE: leaf.key_pem}
    is_usable = not found.errors and bool(files.get(CA_FILE, b"").strip())
    return Due(wanted, "; ".join(one.message for one in found.problems), is_usable=is_usable)


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


def renew(
    pair: PairSnapshot | None,
    *,
    names: Sequence[str],
    at: datetime,
    leaf_lifetime: timedelta = FIRST_LEAF_LIFETIME,
) -> Renewed:
    """Return a pair that is good for these names: the given one, or a new one.

    A pair that is only old is kept: the server renews it.
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


Action: TypeAlias = Literal["kept", "leaf-issued", "authority-issued"]


@dataclass(frozen=True, slots=True)
class Ensured:
    """The pair that is now in the folder."""

    pair: PairSnapshot
    action: Action
    reason: str  # why a pair was made, or why it could not be; empty: the pair is good


@dataclass(frozen=True, slots=True)
class _FolderState:
    pair: PairSnapshot | None
    due: str  # why a new pair is needed; empty: it is not
    usable: bool


def ensure(
    folder: Path,
    *,
    names: Sequence[str],
    ips: Sequence[str] = (),
    at: datetime,
    leaf_lifetime: timedelta = LEAF_LIFETIME,
) -> Ensured:
    """Return the folder's pair if it is good for these names, else replace it by a new one."""
    wanted = (*names, *ips, *LOOPBACK)
    found = _read_folder(folder, wanted, at)
    if found.pair is not None and not found.due:  # no lock: a mounted Secret cannot be written
        return Ensured(found.pair, "kept", "")
    try:
        with _locked(folder):
            found = _read_folder(folder, wanted, at)
            if found.pair is not None and not found.due:  # another process renewed it meanwhile
                return Ensured(found.pair, "kept", "")
            return _make(
                folder, found.due, names=names, ips=ips, at=at, leaf_lifetime=leaf_lifetime
            )
    except FolderNotWritableError as error:
        if found.pair is None or not found.usable:
            raise
        return Ensured(found.pair, "kept", f"{found.due}; {error}")


def _make(
    folder: Path,
    due: str,
    *,
    names: Sequence[str],
    ips: Sequence[str],
    at: datetime,
    leaf_lifetime: timedelta,
) -> Ensured:
    files = {name: read_file(folder / name) or b"" for name in (CA_FILE, CA_KEY_FILE)}
    authority, bundle = choose_authority(files, at)
    leaf = issue(names=names, ips=ips, at=at, authority=authority, leaf_lifetime=leaf_lifetime).leaf
    is_new = authority.key_pem != files[CA_KEY_FILE]
    if is_new or bundle != files[CA_FILE]:
        # The key first: a crash in between leaves a key without certificate, which is remade.
        write_files(folder, {CA_KEY_FILE: authority.key_pem, CA_FILE: bundle})
    write_files(folder, {KEY_FILE: leaf.key_pem, CERT_FILE: leaf.cert_pem})
    made = PairSnapshot(leaf.cert_pem, leaf.key_pem, bundle)
    return Ensured(made, "authority-issued" if is_new else "leaf-issued", due)


def _read_folder(folder: Path, wanted: Sequence[str], at: datetime) -> _FolderState:
    """Read the pair and decide if it is due; raise if it is bad and we must not replace it."""
    ours = _is_ours(folder)
    try:
        pair = PairFiles.in_folder(folder).read()
    except PairAbsentError as error:
        if not ours:
            raise
        return _FolderState(None, str(error), usable=False)
    found = inspect(pair.cert_pem, pair.key_pem, pair.ca_pem, at=at, names=wanted if ours else ())
    if ours:
        due = "; ".join(problem.message for problem in found.problems)
        return _FolderState(pair, due, usable=not found.errors)
    if found.errors:
        raise UnusablePairError(
            "; ".join(f"{folder}: {problem.message}" for problem in found.errors)
        )
    return _FolderState(pair, "", usable=True)


def _is_ours(folder: Path) -> bool:
    """Whether this module made the pair, or the folder is empty."""
    if read_file(folder / CA_KEY_FILE) is not None:
        return True
    return all(read_file(folder / name) is None for name in (CERT_FILE, KEY_FILE, CA_FILE))


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock the folder for one process; the kernel releases the lock if the process dies."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise FolderNotWritableError(
            folder, f"cannot be opened ({error.strerror}): name a writable folder"
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
