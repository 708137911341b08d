"""Which reviews belong to one write: the phases of a write share no uid.

The API server mints a uid for each call (apiserver pkg/admission/plugin/webhook/request/
admissionreview.go:CreateAdmissionObjects), so the phases are joined by what stays equal.
"""

from typing import Final, NamedTuple

from webhook.admission.review import AdmissionRequest

_LONGEST: Final = 4_096


class JoinKey(NamedTuple):
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


def join_key(request: AdmissionRequest) -> JoinKey | None:
    """None for a write whose phases cannot be told from another's (a create: nothing is stored)."""
    old = request.old_object
    if old is None:
        return None
    wire, metadata = request.wire, old.metadata
    key = JoinKey(
        wire.resource.group,
        wire.resource.resource,
        wire.sub_resource,
        wire.namespace,
        wire.name,
        metadata.uid or "",
        wire.user_info.username,
        metadata.resource_version or "",
        bool(wire.dry_run),
    )
    # Keys are remembered: nobody may fill the memory with names that no API server lets through.
    return key if len("".join(key[:-1])) <= _LONGEST else None
