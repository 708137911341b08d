"""The exceptions about certificates, as one tree.

    CertificateError                the root: catch this one
    ├── MalformedPEMError           the bytes are not a certificate or key in PEM
    ├── InvalidRequestError         a request for an invalid certificate
    ├── PairFileError               .path: the file or folder
    │   ├── PairAbsentError         certificate or key or both are missing
    │   ├── PairUnreadableError     a file exists but cannot be read
    │   └── FolderNotWritableError  a file cannot be written
    └── UnusablePairError           readable, but must not be served

They have no HTTP status: certificates are read when the server starts and when files change, never
during a request. Every message says what is wrong, where, and what to do; none holds key material.
"""

from pathlib import Path


class CertificateError(Exception):
    """Any error about certificates."""


class MalformedPEMError(CertificateError):
    """The bytes are not the expected PEM."""


class InvalidRequestError(CertificateError):
    """The given names, times or authority make no valid certificate."""


class PairFileError(CertificateError):
    """A problem with a file or folder of the pair."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path


class PairAbsentError(PairFileError):
    """The certificate, its key, or both are missing."""


class PairUnreadableError(PairFileError):
    """A file exists but cannot be read, or is too large to be PEM."""


class FolderNotWritableError(PairFileError):
    """A certificate could not be written."""


class UnusablePairError(CertificateError):
    """The files were read, but this pair must not be served."""
