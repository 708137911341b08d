"""Of a raw object, what status is judged by: little is decoded, and nothing until it is asked for.

A pod template is most of a Deployment, and the containers are most of a pod's spec: what is asked
there is nobody's question here.
"""

import zlib
from typing import Any, Final

import msgspec

from webhook.admission.review import ReviewedObject
from webhook.objects.fields import Fields

_LEFT_OUT: Final = frozenset({
    "template", "jobTemplate", "volumeClaimTemplates",
    "containers", "initContainers", "ephemeralContainers", "volumes", "imagePullSecrets",
    "affinity", "nodeName", "nodeSelector", "tolerations", "topologySpreadConstraints",
    "dnsConfig", "dnsPolicy", "hostNetwork", "hostname", "subdomain", "enableServiceLinks",
    "preemptionPolicy", "priority", "priorityClassName", "schedulerName", "schedulingGates",
    "securityContext", "serviceAccount", "serviceAccountName", "terminationGracePeriodSeconds",
})  # fmt: skip
"""What of spec evaluate() reads for no kind; nearly all of a pod's."""
_MAX_INT64: Final = 2**63 - 1
_MAX_DIGITS: Final = 18

LONGEST_UID: Final = 128


class _Owner(msgspec.Struct, frozen=True):
    uid: str = ""
    controller: bool | None = None


_owners: Final = msgspec.json.Decoder(tuple[_Owner, ...] | None)
_raw_fields: Final = msgspec.json.Decoder(Fields | None)


class Excerpt:
    """One state of one object. Raises msgspec.MsgspecError where it is decoded and cannot be."""

    __slots__ = (
        "_spec",
        "_status",
        "api_version",
        "digest",
        "generation",
        "kind",
        "metadata",
        "version",
    )

    def __init__(self, reviewed: ReviewedObject, api_version: str, kind: str) -> None:
        self._spec: Final = reviewed.spec
        self._status: Final = reviewed.status
        self.api_version: Final = api_version
        self.kind: Final = kind
        self.metadata: Final = reviewed.metadata
        generation = self.metadata.stored_generation
        self.generation: Final = generation if 0 < generation <= _MAX_INT64 else 0
        self.version: Final = _version(self.metadata.resource_version)
        # The generation stands for spec, where it is kept. Never 0, or as good as never.
        digest = zlib.crc32(self._status or b"", 1)
        if not self.generation:
            digest = zlib.crc32(self._spec or b"", digest)
        if self.metadata.deletion_timestamp:
            digest = zlib.crc32(self.metadata.deletion_timestamp.encode(), digest)
        self.digest: Final = digest

    @property
    def owner(self) -> str:
        """The uid of its controller, else of the first of its owners; "" for nobody's."""
        raw = self.metadata.owner_references
        if isinstance(raw, msgspec.UnsetType):
            return ""
        owners = _owners.decode(raw) or ()
        found = next((one for one in owners if one.controller), owners[0] if owners else None)
        uid = found.uid if found else ""
        return uid if len(uid.encode()) <= LONGEST_UID else ""

    @property
    def document(self) -> dict[str, Any]:
        """The object as evaluate() takes it, without what it does not ask for."""
        known = self.metadata
        metadata: dict[str, Any] = {}
        document = {"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata}
        if known.generation is not msgspec.UNSET:
            metadata["generation"] = known.generation
        if known.creation_timestamp is not None:
            metadata["creationTimestamp"] = known.creation_timestamp
        if known.deletion_timestamp is not None:
            metadata["deletionTimestamp"] = known.deletion_timestamp
        if self._spec is not None:
            document["spec"] = _spec(self._spec)
        if self._status is not None:
            document["status"] = msgspec.json.decode(self._status)
        return document


def _spec(raw: msgspec.Raw) -> Any:
    try:
        fields = _raw_fields.decode(raw)
    except msgspec.ValidationError:
        return msgspec.json.decode(raw)  # no object: evaluate() says so
    if fields is None:
        return None
    return {
        key: msgspec.json.decode(value) for key, value in fields.items() if key not in _LEFT_OUT
    }


def _version(text: str | None) -> int:
    """A resourceVersion as the number that it is (KEP-5504); 0 for one that is none."""
    if text is None or not text.isdecimal() or len(text) > _MAX_DIGITS:
        return 0
    return int(text)
