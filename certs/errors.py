"""What can go wrong with certificates, drawn as one tree.

    CertificateError                catch this one at the edge
    ├── MalformedPEMError           bytes that are not the certificate or key they should be
    ├── InvalidRequestError         asked to issue what would be no valid certificate
    ├── PairFileError               .path: the file or folder that is meant
    │   ├── PairAbsentError         neither the certificate nor the key is there
    │   ├── PairIncompleteError     one of the two is there
    │   ├── PairUnreadableError     a file is there and cannot be read
    │   └── FolderNotWritableError  nothing can be written there
    └── UnusablePairError           .problems: read, and not fit to be served

None of them knows an HTTP status: a certificate is looked at when the server starts and when its
files change, never while a request waits for an answer. Every message says what is wrong, where,
and what to do; none repeats what a key file holds.
"""

from collections.abc import Sequence
from pathlib import Path


class CertificateError(Exception):
    """The root of the tree."""


class MalformedPEMError(CertificateError):
    """The bytes are not the PEM that was expected."""


class InvalidRequestError(CertificateError):
    """The names, times or authority given make no valid certificate."""


class PairFileError(CertificateError):
    """A file or folder of the pair is not as it should be."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path


class PairAbsentError(PairFileError):
    """Neither the certificate nor its key is there."""


class PairIncompleteError(PairFileError):
    """One of certificate and key is there, the other is not."""


class PairUnreadableError(PairFileError):
    """A file is there but cannot be read, or is too large to be PEM."""


class FolderNotWritableError(PairFileError):
    """A certificate had to be written and could not be."""


class UnusablePairError(CertificateError):
    """The files were read, and what they hold cannot be served."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)
