"""Certificates for a webhook server: issue, inspect and renew them, and keep them in files.

`issue`      pure: make an authority and a certificate for names at a time, as PEM values
`inspect`    pure: read PEM, return facts and problems; never raises for bad PEM
`ensure`     read the pair of a folder, or make a new one if it is missing, old or wrong
`renew`      pure: return the given pair if it is good, else a new one
`renewal`    pure: say what the Secret that several replicas use is to hold
`PairFiles.read`  read one consistent snapshot of a mounted Secret or of plain files

A pair is a certificate with its private key. Every error is a `CertificateError`: see pem.py.
The package does not depend on the server that uses it.
"""

from certs.files import PairFiles, PairSnapshot, write_files
from certs.inspect import inspect
from certs.issue import (
    FIRST_LEAF_LIFETIME,
    LEAF_LIFETIME,
    LOOPBACK,
    Issued,
    KeyPair,
    installed_names,
    issue,
    issue_authority,
    service_names,
)
from certs.pem import (
    CertificateError,
    FolderNotWritableError,
    InvalidRequestError,
    MalformedPEMError,
    PairAbsentError,
    PairFileError,
    PairUnreadableError,
    UnusablePairError,
)
from certs.renewal import Due, Files, Renewed, ensure, renew, renewal

__all__ = [
    "FIRST_LEAF_LIFETIME",
    "LEAF_LIFETIME",
    "LOOPBACK",
    "CertificateError",
    "Due",
    "Files",
    "FolderNotWritableError",
    "InvalidRequestError",
    "Issued",
    "KeyPair",
    "MalformedPEMError",
    "PairAbsentError",
    "PairFileError",
    "PairFiles",
    "PairSnapshot",
    "PairUnreadableError",
    "Renewed",
    "UnusablePairError",
    "ensure",
    "inspect",
    "installed_names",
    "issue",
    "issue_authority",
    "renew",
    "renewal",
    "service_names",
    "write_files",
]
