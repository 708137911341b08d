"""Which reviews belong to one write: the phases of a write share no uid.

The API server mints a uid for each call (apiserver pkg/admission/plugin/webhook/request/
admissionreview.go:CreateAdmissionObjects), so the phases are joined by what stays equal.
"""

from typing import Final

import msgspec

_LONGEST: Final = 4_096


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
        """Nobody may fill the memory with names that no API server lets through."""
        return len("".join(msgspec.structs.astuple(self)[:-1])) <= _LONGEST
