"""The key that joins the reviews of one write: its phases share no uid.

The API server mints a uid for each call (apiserver pkg/admission/plugin/webhook/request/
admissionreview.go:CreateAdmissionObjects), so the phases are joined by what stays equal.
"""

import sys
from typing import Final

import msgspec

_LONGEST: Final = 4_096
_BYTES_OF_TEXTS: Final = 600
"""Eight of them, with the key itself."""


class JoinKey(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Equal for the phases and rounds of one write, different for the next one."""

    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    uid: str
    user: str
    resource_version: str
    dry_run: bool

    @property
    def is_remembered(self) -> bool:
        """Whether its names are short enough for an API server: forged ones could fill memory."""
        return self.size <= _LONGEST + _BYTES_OF_TEXTS

    @property
    def size(self) -> int:
        """About how many bytes of memory it takes; four a character where one is not ASCII."""
        return sys.getsizeof("".join(msgspec.structs.astuple(self)[:-1])) + _BYTES_OF_TEXTS
