"""Read a pair from files, and write files atomically.

Reads   tls.crt, tls.key and ca.crt. If they are swapped meanwhile, they do not belong together:
        inspect() says so, and whoever serves keeps its pair and reads again
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
from certs.pem import CA_FILE, CERT_FILE, KEY_FILE, PairFileError, PairSnapshot

CA_KEY_FILE: Final = "ca.key"
_SECRETS: Final = {KEY_FILE, CA_KEY_FILE}
_LARGEST: Final = 1 << 20  # bytes: the limit of a Secret; a larger file is no certificate


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

    def location(self, part: Part) -> str:
        """The path of a part of the pair, for messages."""
        files = {"certificate": self.cert_file, "key": self.key_file, "ca": self.ca_file}
        return str(files[part])

    def read(self) -> PairSnapshot:
        """Read all files. Raises PairFileError."""
        cert, key, ca = map(read_file, (self.cert_file, self.key_file, self.ca_file))
        if cert is None or key is None:
            absent = self.key_file if key is None and cert is not None else self.cert_file
            both = "" if cert is not None or key is not None else f" and {self.key_file} too"
            raise PairFileError(absent, f"is missing{both}: put the pair there")
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
