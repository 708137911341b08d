"""Keep a working pair in a folder: read it, or make a new one if it is missing, old or wrong.

Reads   tls.crt, tls.key, ca.crt and ca.key
Acts on only pairs that it made. A pair without ca.key belongs to somebody else: it is served or
        refused, never replaced
Result  the pair, what was done and why; the caller logs it and gives a new CA to the API server
Relies  on ca.crt as a bundle, newest authority first. The previous authority stays in it until it
        expires, so certificates of both verify while the change spreads
"""

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal, TypeAlias

from certs.errors import (
    FolderNotWritableError,
    PairAbsentError,
    UnusablePairError,
)
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
from certs.issue import LEAF_LIFETIME, issue
from certs.names import LOOPBACK
from certs.rotation import choose_authority

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
