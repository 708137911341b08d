"""Renew a pair that is missing, old or wrong: in a folder, or in a Secret.

Acts on only pairs that it made. A pair of another issuer, or a folder without ca.key, belongs to
        somebody else: it is served or refused, never replaced
Relies  on ca.crt as a bundle, newest authority first. The previous ones stay in it until they
        expire, so certificates of all verify while a change spreads

An authority lives for ten years and signs every leaf, so a renewed leaf is one write, and no
caBundle changes. Another authority is made only where its key is lost, or it is old itself. Then it
goes into ca.crt first, and signs once every caBundle holds it.
"""

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Final

from certs import pem
from certs.files import CA_KEY_FILE, PairFiles, read_file, write_files
from certs.inspect import inspect
from certs.issue import (
    AUTHORITY_NAME,
    LEAF_LIFETIME,
    LOOPBACK,
    find_authority,
    issue,
    issue_authority,
)

_MOST_TRUSTED: Final = 20
"""A bound: an authority is added each time that ca.key is damaged."""
_FILES: Final = (CA_KEY_FILE, pem.CA_FILE, pem.KEY_FILE, pem.CERT_FILE)
"""In the order in which they are written: a crash leaves a key without a certificate at most, and
that is made again."""


@dataclass(frozen=True, slots=True)
class Due:
    """What a Secret is to hold; `reason` is empty if that is what it holds.

    left       why this pair is another program's, "" if it is ours
    is_usable  what it holds may be served, and can be trusted by its ca.crt
    """

    files: pem.Files = field(repr=False)
    reason: str = ""
    left: str = ""
    is_usable: bool = True


def renewal(
    files: pem.Files,
    trusted: Sequence[bytes],
    at: datetime,
    *,
    names: Sequence[str],
    lifetime: timedelta,
    may_sign: bool = True,
    is_ours: bool = False,
) -> Due:
    """Return what a Secret is to hold. Bad contents are a reason for a new leaf.

    trusted   the caBundle of every webhook in PEM
    names     those that the API server uses; `lifetime` is that of a new leaf
    may_sign  the API servers have seen what is in `trusted`
    is_ours   a leaf of another issuer is replaced, too
    Raises CertificateError if a name is none, or if ca.key cannot sign here.
    """
    pair = pem.PairSnapshot.of(files)
    found = inspect(
        pair.cert_pem, pair.key_pem, pair.ca_pem or b"", at=at, names=(*names, *LOOPBACK)
    )
    ours = f"CN={AUTHORITY_NAME} "
    if found.details and not is_ours and not found.details.issuer.startswith(ours):
        return Due(files, left=f"it is signed by {found.details.issuer}, and its issuer renews it")
    if not found.problems:
        return Due(files)
    # Registrations count, too: if the Secret was damaged, replicas still serve the old leaf, and
    # only the registrations have its authority.
    bundles = (files.get(pem.CA_FILE, b""), *trusted)
    living = [certificate for bundle in bundles for certificate in pem.read_living(bundle, at)]
    known = find_authority(living, files.get(CA_KEY_FILE, b""), at)
    authority = issue_authority(at=at) if known is None else known
    bundle = dict.fromkeys((authority.cert_pem, *map(pem.write_certificate, living)))
    ca_pem = b"".join(islice(bundle, _MOST_TRUSTED))
    wanted = {**files, pem.CA_FILE: ca_pem, CA_KEY_FILE: authority.key_pem}
    if may_sign and all(authority.cert_pem in ca_bundle for ca_bundle in trusted):
        leaf = issue(names=names, at=at, authority=authority, leaf_lifetime=lifetime)
        wanted |= {pem.CERT_FILE: leaf.cert_pem, pem.KEY_FILE: leaf.key_pem}
    is_usable = not found.errors and bool(files.get(pem.CA_FILE, b"").strip())
    return Due(
        wanted, "; ".join(problem.message for problem in found.problems), is_usable=is_usable
    )


@dataclass(frozen=True, slots=True)
class Ensured:
    """The pair that is now in the folder."""

    pair: pem.PairSnapshot
    action: str = "kept"  # or leaf-issued, authority-issued
    reason: str = ""  # why a pair was made, or why it could not be; empty: the pair is good


def ensure(
    folder: Path, *, names: Sequence[str], at: datetime, leaf_lifetime: timedelta = LEAF_LIFETIME
) -> Ensured:
    """Return the folder's pair if it is good for these names, else replace it by a new one.

    Raises CertificateError.
    """

    def look() -> tuple[pem.Files, Due]:
        read = ((name, read_file(folder / name)) for name in _FILES)
        files = {name: content for name, content in read if content is not None}
        return files, renewal(files, (), at, names=names, lifetime=leaf_lifetime, is_ours=True)

    files, due = look()
    if files and CA_KEY_FILE not in files:
        pair = PairFiles.in_folder(folder).read()
        if errors := inspect(pair.cert_pem, pair.key_pem, pair.ca_pem, at=at).errors:
            raise pem.CertificateError("; ".join(f"{folder}: {error.message}" for error in errors))
        return Ensured(pair)
    if not due.reason:  # no lock: a mounted Secret cannot be written
        return Ensured(pem.PairSnapshot.of(files))
    try:
        with _locked(folder):
            files, due = look()
            if not due.reason:  # another process renewed it meanwhile
                return Ensured(pem.PairSnapshot.of(files))
            changed = [name for name in _FILES if due.files[name] != files.get(name)]
            write_files(folder, {name: due.files[name] for name in changed})
    except OSError as error:
        reason = f"cannot be written ({error.strerror}): name a writable folder"
        unusable = pem.PairFileError(folder, reason)
        if not due.is_usable:
            raise unusable from error
        return Ensured(pem.PairSnapshot.of(files), reason=f"{due.reason}; {unusable}")
    action = "authority-issued" if CA_KEY_FILE in changed else "leaf-issued"
    return Ensured(pem.PairSnapshot.of(due.files), action, due.reason)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock the folder for one process; the kernel releases the lock if the process dies."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
