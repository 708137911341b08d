"""Certificates for a webhook server: make them, look at them, keep them in files.

`issue`    pure: an authority and a leaf for some names at some time, as PEM values
`inspect`  pure: PEM in, facts and problems in plain words out; never raises for bad PEM
`ensure`   a folder with a pair that works: read it, or make what is missing or worn out
`renew`    pure: a pair that works as a value: the one given, or one in its place
`next_step`  pure: how a pair that replicas share is renewed while it is in use
`PairFiles.read`  one consistent snapshot of a mounted Secret or of plain files

Every error is a `CertificateError`; errors.py draws the tree. The package knows nothing of
Kubernetes beyond the names of files in a Secret, and nothing of the server that uses it.
"""

from certs.ensure import Ensured, ensure
from certs.errors import (
    CertificateError,
    FolderNotWritableError,
    InvalidRequestError,
    MalformedPEMError,
    PairAbsentError,
    PairFileError,
    PairIncompleteError,
    PairUnreadableError,
    UnusablePairError,
)
from certs.files import PairFiles, PairSnapshot, write_files
from certs.inspect import CertificateFacts, Inspection, Problem, inspect
from certs.issue import (
    AUTHORITY_LIFETIME,
    LEAF_LIFETIME,
    CertificateAuthority,
    Issued,
    KeyPair,
    LeafCertificate,
    issue,
    issue_authority,
)
from certs.names import LOOPBACK, installed_names, service_names
from certs.rotation import (
    Files,
    Leave,
    Prepare,
    Promote,
    Renewed,
    Spread,
    Step,
    Tidy,
    Trusting,
    Wait,
    next_step,
    renew,
    stage,
)

__all__ = [
    "AUTHORITY_LIFETIME",
    "LEAF_LIFETIME",
    "LOOPBACK",
    "CertificateAuthority",
    "CertificateError",
    "CertificateFacts",
    "Ensured",
    "Files",
    "FolderNotWritableError",
    "Inspection",
    "InvalidRequestError",
    "Issued",
    "KeyPair",
    "LeafCertificate",
    "Leave",
    "MalformedPEMError",
    "PairAbsentError",
    "PairFileError",
    "PairFiles",
    "PairIncompleteError",
    "PairSnapshot",
    "PairUnreadableError",
    "Prepare",
    "Problem",
    "Promote",
    "Renewed",
    "Spread",
    "Step",
    "Tidy",
    "Trusting",
    "UnusablePairError",
    "Wait",
    "ensure",
    "inspect",
    "installed_names",
    "issue",
    "issue_authority",
    "next_step",
    "renew",
    "service_names",
    "stage",
    "write_files",
]
