"""Certificates for a webhook server: issue, inspect and renew them, and keep them in files.

`issue`      pure: make an authority and a certificate for names at a time, as PEM values
`inspect`    pure: read PEM, return details and problems; never raises for bad PEM
`renewal`    pure: say what the Secret that several replicas use is to hold
`ensure`     read the pair of a folder, or make a new one if it is missing, old or wrong
`PairFiles.read`  read the pair of a mounted Secret or of plain files

A pair is a certificate with its private key. Every error is a `CertificateError`.
The package does not depend on the server that uses it.
"""

from certs.files import PairFiles, write_files
from certs.inspect import inspect
from certs.issue import (
    FIRST_LEAF_LIFETIME,
    LEAF_LIFETIME,
    installed_names,
    issue,
    issue_authority,
    service_names,
)
from certs.pem import CertificateError, Files, PairFileError, PairSnapshot
from certs.renewal import ensure, renewal

__all__ = [
    "FIRST_LEAF_LIFETIME",
    "LEAF_LIFETIME",
    "CertificateError",
    "Files",
    "PairFileError",
    "PairFiles",
    "PairSnapshot",
    "ensure",
    "inspect",
    "installed_names",
    "issue",
    "issue_authority",
    "renewal",
    "service_names",
    "write_files",
]
