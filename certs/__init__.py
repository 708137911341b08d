"""Certificates for a webhook server: issue, inspect and renew them, and keep them in files.

`issue`      pure: make an authority and a certificate for names at a time, as PEM values
`inspect`    pure: read PEM, return facts and problems; never raises for bad PEM
`ensure`     read the pair of a folder, or make a new one if it is missing, old or wrong
`renew`      pure: return the given pair if it is good, else a new one
`next_step`  pure: decide how to renew a pair that several replicas use at the moment
`PairFiles.read`  read one consistent snapshot of a mounted Secret or of plain files

A pair is a certificate with its private key. Every error is a `CertificateError`: see errors.py.
The package does not depend on the server that uses it.
"""

from certs.ensure import ensure
from certs.errors import (
    CertificateError,
    FolderNotWritableError,
    InvalidRequestError,
    MalformedPEMError,
    PairAbsentError,
    PairFileError,
    PairUnreadableError,
    UnusablePairError,
)
from certs.files import PairFiles, PairSnapshot, write_files
from certs.inspect import inspect
from certs.issue import (
    FIRST_LEAF_LIFETIME,
    LEAF_LIFETIME,
    Issued,
    KeyPair,
    issue,
    issue_authority,
)
from certs.names import LOOPBACK, installed_names, service_names
from certs.rotation import (
    Files,
    Leave,
    Renewed,
    Spread,
    Step,
    Trust,
    Wait,
    Write,
    next_step,
    renew,
)

__all__ = [
    "FIRST_LEAF_LIFETIME",
    "LEAF_LIFETIME",
    "LOOPBACK",
    "CertificateError",
    "Files",
    "FolderNotWritableError",
    "InvalidRequestError",
    "Issued",
    "KeyPair",
    "Leave",
    "MalformedPEMError",
    "PairAbsentError",
    "PairFileError",
    "PairFiles",
    "PairSnapshot",
    "PairUnreadableError",
    "Renewed",
    "Spread",
    "Step",
    "Trust",
    "UnusablePairError",
    "Wait",
    "Write",
    "ensure",
    "inspect",
    "installed_names",
    "issue",
    "issue_authority",
    "next_step",
    "renew",
    "service_names",
    "write_files",
]
