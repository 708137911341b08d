"""One version of one object as a watch shows it, decoded as far as rules of status read it.

Most versions repeat what is known, so `digest` and `generation` tell that without decoding.
"""

import zlib
from typing import Any, Final, TypedDict

import msgspec

from genguard.objects.fields import Fields, count_values, get
from genguard.objects.metadata import decode_metadata, version_number
from genguard.objects.owners import read_owner_uid
from genguard.status.health_rules import RuleAnswers

_LEFT_OUT: Final = frozenset({
    "template", "jobTemplate", "volumeClaimTemplates",
    "containers", "initContainers", "ephemeralContainers", "volumes", "imagePullSecrets",
    "affinity", "nodeName", "nodeSelector", "tolerations", "topologySpreadConstraints",
    "dnsConfig", "dnsPolicy", "hostNetwork", "hostname", "subdomain", "enableServiceLinks",
    "preemptionPolicy", "priority", "priorityClassName", "schedulerName", "schedulingGates",
    "securityContext", "serviceAccount", "serviceAccountName", "terminationGracePeriodSeconds",
})  # fmt: skip
"""Fields of spec that no rule of status reads; they are most of a pod or pod template. What ends
is an exception: its node, or the grace period of its pods, says for how long that is normal."""
_UNNAMED: Final = "(named at /terminating)"
"""Instead of finalizers: what is tracked is shown to more people than that page."""
MOST_CONDITIONS: Final = 1_000
"""No kind has nearly as many; each takes several microseconds, and answers wait meanwhile."""
MOST_VALUES: Final = 50_000
"""Of a status, or of one field of spec. As many are decoded in some milliseconds."""
MAX_INT64: Final = 2**63 - 1


class _Container(TypedDict, total=False):
    """What is read of the containers of a Pod."""

    name: str
    image: str
    restartPolicy: str


_CONTAINERS: Final = frozenset({"containers", "initContainers"})
_containers: Final = msgspec.json.Decoder(list[_Container] | None)
_fields: Final = msgspec.json.Decoder(Fields | None)


class ObjectSnapshot:
    """One version of one object. Its methods raise msgspec.MsgspecError for malformed JSON."""

    __slots__ = (
        "_api_version", "_kind", "_spec", "_status", "answers", "digest", "generation", "metadata",
        "version",
    )  # fmt: skip

    def __init__(self, document: Fields, kind: str, answers: RuleAnswers | None = None) -> None:
        """`answers` are what a rule in CEL says of the object; None without such a rule.

        Raises KeyError without apiVersion or metadata, and msgspec.MsgspecError for bad ones.
        """
        self.answers: Final = answers
        self._api_version: Final = msgspec.json.decode(document["apiVersion"], type=str)
        self._kind: Final = kind
        self._spec: Final = document.get("spec")
        self._status: Final = document.get("status")
        self.metadata: Final = decode_metadata(document)
        generation = self.metadata.stored_generation
        self.generation: Final = generation if 0 < generation <= MAX_INT64 else 0
        self.version: Final = version_number(self.metadata.resource_version)
        # A generation identifies spec. The start value 1 keeps the digest from being 0 in practice.
        digest = zlib.crc32(self._status or b"", 1)
        if not self.generation:
            digest = zlib.crc32(self._spec or b"", digest)
        if self.metadata.deletion_timestamp:
            digest = zlib.crc32(self.metadata.deletion_timestamp.encode(), digest)
        self.digest: Final = digest

    def read_owner_uid(self) -> str:
        """Return the uid of its controller, or else of its first owner; "" without owners."""
        return read_owner_uid(self.metadata.owner_references)

    def decode(self) -> dict[str, Any]:
        """Return the object as evaluate() needs it, without the fields that no rule reads."""
        known = self.metadata
        metadata: dict[str, Any] = {}
        document: dict[str, Any] = {
            "apiVersion": self._api_version,
            "kind": self._kind,
            "metadata": metadata,
        }
        if known.generation is not msgspec.UNSET:
            metadata["generation"] = known.generation
        if known.creation_timestamp is not None:
            metadata["creationTimestamp"] = known.creation_timestamp
        if known.deletion_timestamp is not None:
            metadata["deletionTimestamp"] = known.deletion_timestamp
            metadata["deletionGracePeriodSeconds"] = known.deletion_grace_period_seconds
            metadata["finalizers"] = [_UNNAMED] if known.finalizers else []
        status: Any = None if self._status is None else _decode_status(self._status)
        if self._spec is not None:
            document["spec"] = self._decode_spec(self._spec, status)
        if self._status is not None:
            document["status"] = status
        return document

    def _decode_spec(self, raw: msgspec.Raw, status: Any) -> Any:
        try:
            fields = _fields.decode(raw)
        except msgspec.ValidationError:
            return msgspec.json.decode(raw)  # not an object: evaluate() reports it
        if fields is None:
            return None
        left_out = _LEFT_OUT - ({"template"} if get(status, "terminatingReplicas") else set())
        found = {
            key: msgspec.json.decode(value)
            for key, value in fields.items()
            if key not in left_out and not _has_too_many_values(value)
        }
        if self._kind == "Pod":
            for key in fields.keys() & _CONTAINERS:
                try:
                    found[key] = _containers.decode(fields[key])
                except msgspec.ValidationError:
                    found[key] = None  # the API server stores no such containers
        if self.metadata.deletion_timestamp is not None and "nodeName" in fields:
            found["nodeName"] = "its node" if msgspec.json.decode(fields["nodeName"]) else ""
        return found


def _has_too_many_values(raw: msgspec.Raw) -> bool:
    return len(raw) > MOST_VALUES and count_values(bytes(raw)) > MOST_VALUES


def _decode_status(raw: msgspec.Raw) -> Any:
    """Decode a status; raises msgspec.ValidationError where there is too much in it."""
    if _has_too_many_values(raw):
        raise msgspec.ValidationError(f"more than {MOST_VALUES} values")
    status = msgspec.json.decode(raw)
    conditions = status.get("conditions") if isinstance(status, dict) else None
    if isinstance(conditions, list) and len(conditions) > MOST_CONDITIONS:
        raise msgspec.ValidationError(f"more than {MOST_CONDITIONS} conditions")
    return status
