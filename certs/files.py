"""Read a pair from files as one consistent snapshot, and write files atomically.

Reads   tls.crt, tls.key and ca.crt, again until none of them changed meanwhile. This works for
        plain files and for a mounted Secret, whose files the kubelet swaps at once through its
        `..data` symlink (k8s.io/kubernetes pkg/volume/util/atomic_writer.go)
Writes  a temporary file, fsync, rename, fsync of the folder; keys with mode 0600
"""

import contextlib
import os
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from certs.inspect import Part
from certs.pem import FolderNotWritableError, PairAbsentError, PairUnreadableError

CERT_FILE: Final = "tls.crt"
KEY_FILE: Final = "tls.key"
CA_FILE: Final = "ca.crt"
CA_KEY_FILE: Final = "ca.key"
_SECRETS: Final = {KEY_FILE, CA_KEY_FILE}
_LARGEST: Final = 1 << 20  # bytes: the limit of a Secret; a larger file is no certificate
_ATTEMPTS: Final = 3  # one swap during a read is chance, three are an error


@dataclass(frozen=True, slots=True)
class PairSnapshot:
    """The contents of the files at one moment."""

    cert_pem: bytes
    key_pem: bytes = field(repr=False)
    ca_pem: bytes | None  # None: no such file


@dataclass(frozen=True, slots=True)
class PairFiles:
    """The paths of a pair. Without a CA bundle no chain is checked."""

    cert_file: Path
    key_file: Path
    ca_file: Path

    @classmethod
    def in_folder(cls, folder: Path) -> Self:
        """The paths in a folder, with the file names of Secrets of type kubernetes.io/tls."""
        return cls(folder / CERT_FILE, folder / KEY_FILE, folder / CA_FILE)

    @classmethod
    def beside(cls, cert_file: Path, key_file: Path) -> Self:
        """The paths of a pair with any file names; ca.crt is expected beside the certificate."""
        return cls(cert_file, key_file, cert_file.parent / CA_FILE)

    def place(self, part: Part) -> str:
        """The path of a part of the pair, for messages."""
        places = {"certificate": self.cert_file, "key": self.key_file, "ca": self.ca_file}
        return str(places[part])

    def read(self) -> PairSnapshot:
        """Read all files as they were at one moment."""
        paths = (self.cert_file, self.key_file, self.ca_file)
        for _ in range(_ATTEMPTS):
            before = [_identity(path) for path in paths]
            cert, key, ca = (read_file(path) for path in paths)
            if [_identity(path) for path in paths] == before:
                return self._both(cert, key, ca)
        raise PairUnreadableError(
            self.cert_file, "changed at every read: let only one program renew the pair"
        )

    def _both(self, cert: bytes | None, key: bytes | None, ca: bytes | None) -> PairSnapshot:
        if cert is not None and key is not None:
            return PairSnapshot(cert, key, ca)
        if cert is None and key is None:
            raise PairAbsentError(
                self.cert_file, f"it and {self.key_file} are missing: put the pair there"
            )
        absent, present = (
            (self.cert_file, self.key_file) if cert is None else (self.key_file, self.cert_file)
        )
        raise PairAbsentError(
            absent, f"is missing, but {present} exists: add the file that belongs to it"
        )


def read_file(path: Path) -> bytes | None:
    """Return the contents of a file, or None if it does not exist."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise PairUnreadableError(path, "is not a file: name a PEM file")
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise PairUnreadableError(
            path, f"cannot be read ({error.strerror}): check its owner and mode"
        ) from error
    if len(content) > _LARGEST:
        raise PairUnreadableError(path, f"is larger than {_LARGEST} bytes: name a PEM file")
    return content


def write_files(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write each file atomically, in the given order; only the owner may read keys."""
    for name, content in contents.items():
        try:
            _replace(folder / name, content, 0o600 if name in _SECRETS else 0o644)
        except OSError as error:
            raise FolderNotWritableError(
                folder, f"{name} cannot be written ({error.strerror}): name a writable folder"
            ) from error


def _replace(path: Path, content: bytes, mode: int) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the rename itself must survive a power cut
    finally:
        os.close(folder)


def _identity(path: Path) -> tuple[int, ...] | None:
    """A value that changes with the file's content; None if there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
