"""Read a pair from files as one consistent snapshot; write files that nobody sees half done.

Reads   tls.crt, tls.key and ca.crt, again until none of them changed during the look. That holds
        for a mounted Secret, whose files the kubelet swaps all at once through its `..data`
        symlink (k8s.io/kubernetes pkg/volume/util/atomic_writer.go), and for plain files
Writes  temporary file, fsync, rename, fsync of the folder; keys with mode 0600
"""

import contextlib
import os
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from certs.errors import (
    FolderNotWritableError,
    PairAbsentError,
    PairIncompleteError,
    PairUnreadableError,
)
from certs.inspect import Part

CERT_FILE: Final = "tls.crt"
KEY_FILE: Final = "tls.key"
CA_FILE: Final = "ca.crt"
CA_KEY_FILE: Final = "ca.key"
_SECRETS: Final = {KEY_FILE, CA_KEY_FILE}
_LARGEST: Final = 1 << 20  # what a Secret may hold; a larger file is no certificate
_LOOKS: Final = 3  # one swap during a look is bad luck, three are another fault


@dataclass(frozen=True, slots=True)
class PairSnapshot:
    """What the files held at one moment."""

    cert_pem: bytes
    key_pem: bytes = field(repr=False)
    ca_pem: bytes | None  # None: there is no such file


@dataclass(frozen=True, slots=True)
class PairFiles:
    """Where a pair is kept. The CA bundle may be missing: then no chain is checked."""

    cert_file: Path
    key_file: Path
    ca_file: Path

    @classmethod
    def in_folder(cls, folder: Path) -> Self:
        """The names that Secrets of type kubernetes.io/tls and cert-manager use."""
        return cls(folder / CERT_FILE, folder / KEY_FILE, folder / CA_FILE)

    @classmethod
    def beside(cls, cert_file: Path, key_file: Path) -> Self:
        """A pair under names of its own; a bundle is looked for beside the certificate."""
        return cls(cert_file, key_file, cert_file.parent / CA_FILE)

    def place(self, part: Part) -> str:
        """Where a part of the pair is, for who has to mend it."""
        places = {"certificate": self.cert_file, "key": self.key_file, "ca": self.ca_file}
        return str(places[part])

    def read(self) -> PairSnapshot:
        """All files as they were at one moment."""
        paths = (self.cert_file, self.key_file, self.ca_file)
        for _ in range(_LOOKS):
            before = [_identity(path) for path in paths]
            cert, key, ca = (read_file(path) for path in paths)
            if [_identity(path) for path in paths] == before:
                return self._both(cert, key, ca)
        raise PairUnreadableError(
            self.cert_file, "changed at every look: let a single writer renew the pair"
        )

    def _both(self, cert: bytes | None, key: bytes | None, ca: bytes | None) -> PairSnapshot:
        if cert is not None and key is not None:
            return PairSnapshot(cert, key, ca)
        if cert is None and key is None:
            raise PairAbsentError(
                self.cert_file, f"neither it nor {self.key_file} is there: put the pair in place"
            )
        absent, present = (
            (self.cert_file, self.key_file) if cert is None else (self.key_file, self.cert_file)
        )
        raise PairIncompleteError(
            absent, f"is not there though {present} is: put in its place what belongs to it"
        )


def read_file(path: Path) -> bytes | None:
    """What a file holds, or None when there is none."""
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
    """Writes each file whole or not at all, in the order given; keys only their owner may read."""
    for name, content in contents.items():
        try:
            _replace(folder / name, content, 0o600 if name in _SECRETS else 0o644)
        except OSError as error:
            raise FolderNotWritableError(
                folder, f"{name} cannot be written ({error.strerror}): name a folder that can be"
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
    """Changes whenever the path leads to other content; None when it leads nowhere."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
