"""Since when Kubernetes knows a field: who was built with an older API drops it.

since.json has what is newer than 1.26, of all versions of a kind together, as the OpenAPI documents
of Kubernetes 1.26.0 to 1.37.0 say (k8s.io/kubernetes api/openapi-spec/swagger.json). It has by type
the minor version in which a field came, and the field's type where that has newer fields in turn.
tools/versions/since.py writes it.
"""

from typing import Final

from genguard.objects.fields import from_pointer
from genguard.objects.served import resource_name
from genguard.shipped import shipped

_NOTHING: Final = ("", "")
Types = dict[str, dict[str, tuple[str, str]]]


def first_version(group: str, resource: str, pointer: str) -> str | None:
    """Return the first minor version, as `1.28`, that knows a field of one of Kubernetes' kinds.

    pointer  RFC 6901; an index of a list, or a key of a map, may also be `*`
    None for what 1.26 has, and for what is not known. A field below a newer one, or of a newer
    kind, is at least as new. Raises ValueError on a bad pointer.
    """
    types, found, of = load_types(), "", "kinds 0"
    for token in (resource_name(group, resource), *from_pointer(pointer)):
        fields = types.get(of, {})
        since, of = fields.get("*") or fields.get(token, _NOTHING)
        found = since or found
    return found or None


def load_types() -> Types:
    """Read since.json."""
    return shipped("genguard.detection", "since.json", Types)
