"""Read a pair from files as one consistent snapshot, and write files atomically.

Reads   tls.crt, tls.key and ca.crt, again until none of them changed meanwhile. This works for
        plain files and for a mounted Secret, whose files the kubelet swaps at once through its
        `..data` symlink (k8s.io/kubernetes pkg/volume/util/atomic_writer.go)
Writes  a temporary file, fsync, rename; keys with mode 0600
"""

import contextlib
import os
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from certs.inspect import Part
from certs.pem import PairAbsentError, PairFileError, PairSnapshot

CERT_FILE: Final = "tls.crt"
KEY_FILE: Final = "tls.key"
CA_FILE: Final = "ca.crt"
CA_KEY_FILE: Final = "ca.key"
_SECRETS: Final = {KEY_FILE, CA_KEY_FILE}
_LARGEST: Final = 1 << 20  # bytes: the limit of a Secret; a larger file is no certificate
_ATTEMPTS: Final = 3  # one swap during a read is chance, three are an error


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
        """Read all files as they were at one moment. Raises PairFileError."""
        paths = (self.cert_file, self.key_file, self.ca_file)
        for _ in range(_ATTEMPTS):
            before = [_identity(path) for path in paths]
            cert, key, ca = (read_file(path) for path in paths)
            if [_identity(path) for path in paths] == before:
                break
        else:
            raise PairFileError(
                self.cert_file, "changed at every read: let only one program renew the pair"
            )
        if cert is None or key is None:
            absent = self.key_file if key is None and cert is not None else self.cert_file
            both = "" if cert is not None or key is not None else f" and {self.key_file} too"
            raise PairAbsentError(absent, f"is missing{both}: put the pair there")
        return PairSnapshot(cert, key, ca)


def read_file(path: Path) -> bytes | None:
    """Return the contents of a file, or None if it does not exist. Raises PairFileError."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise PairFileError(path, "is not a file: name a PEM file")
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        reason = f"cannot be read ({error.strerror}): check its owner and mode"
        raise PairFileError(path, reason) from error
    if len(content) > _LARGEST:
        raise PairFileError(path, f"is larger than {_LARGEST} bytes: name a PEM file")
    return content


def write_files(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write each file atomically, in the given order; only the owner may read keys.

    Raises OSError.
    """
    for name, content in contents.items():
        _replace(folder / name, content, 0o600 if name in _SECRETS else 0o644)


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


def _identity(path: Path) -> tuple[int, ...] | None:
    """A value that changes with the file's content; None if there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
