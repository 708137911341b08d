"""Remember the last stored state of each object, as the answers of the API server show it.

Bounded in objects and in bytes: those not written for longest are forgotten first.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from genguard.audit.event import Event, ObjectReference, decode_object, is_object
from genguard.detection.metadata import TOLD
from genguard.objects.bounded import Bounded
from genguard.objects.fields import Fields, fields_of, get
from genguard.objects.metadata import at_version, version_number, without_managed_fields

MOST_OBJECTS: Final = 20_000
MOST_BYTES: Final = 16 * 1024 * 1024
"""The bytes of stored objects, without the overhead of Python for each."""


class Identity(msgspec.Struct, rename="camel"):
    """The metadata that tells the states of an object apart."""

    name: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0


class StoredObject(NamedTuple):
    """One state of an object.

    fields  without managedFields: nothing here reads them, and they are half of an object
    missed  the subresource of writes since that did not show their result, * for any other or
            several, "" for none: then this is the state that is stored
    """

    api_version: str
    kind: str
    identity: Identity
    fields: Fields
    missed: str = ""

    @classmethod
    def read(cls, raw: msgspec.Raw) -> "StoredObject | None":
        """Return the object of an answer; None for no object, and for a Status.

        Raises as `object_fields`.
        """
        fields = object_fields(raw)
        if "metadata" not in fields or "kind" not in fields or "apiVersion" not in fields:
            return None
        kind, raw = _text.decode(fields["kind"]), fields["metadata"]
        if kind == "Status" or not is_object(raw):
            return None
        bare = without_managed_fields(fields)
        return cls(_text.decode(fields["apiVersion"]), kind, _identity.decode(raw), bare)

    @classmethod
    def unknown(cls, event: Event, reference: ObjectReference) -> "StoredObject":
        """Return what stands for an object of which the request alone is known; raises the same.

        Of a PUT its metadata are those that were sent, so that nothing of them seems to be asked
        for. Of a patch, what it takes away is there.
        """
        sent = decode_object(event.request_object) if is_object(event.request_object) else {}
        group, version = reference.api_group, reference.api_version
        metadata = get(sent, "metadata")
        given = {"metadata": metadata} if isinstance(metadata, dict) else {}
        fields = fields_of({"metadata": {}, **(given if event.verb == "update" else _taken(sent))})
        return cls(f"{group}/{version}" if group else version, "", Identity(), fields)

    def at(self, resource_version: str) -> "StoredObject":
        """Return the object with another resourceVersion."""
        return self._replace(fields=at_version(self.fields, resource_version))

    def is_before(self, other: "StoredObject") -> bool:
        """Whether this is an older state than the other; versions are numbers in practice."""
        mine, theirs = self.identity.resource_version, other.identity.resource_version
        return version_number(mine) < version_number(theirs)

    def is_state_of(self, other: "StoredObject") -> bool:
        """Whether both are the same object, shown in the same version of the API."""
        return self.identity.uid == other.identity.uid and self.api_version == other.api_version

    def scale(self, shown: "StoredObject") -> "StoredObject | None":
        """Return the Scale that showed this object; `shown` is that of the answer.

        None for a custom resource that has its replicas elsewhere.
        """
        replicas = _spec_of(self).get("replicas")
        if replicas is None:
            return None
        # A Scale leaves out a zero (autoscaling/v1 types.go: omitempty).
        spec = {} if bytes(replicas) == b"0" else {"replicas": replicas}
        version = self.identity.resource_version
        identity = msgspec.structs.replace(shown.identity, resource_version=version)
        scale = shown._replace(identity=identity, fields={**shown.fields, "spec": _raw(spec)})
        return scale.at(version)

    def scaled(self, shown: "StoredObject") -> "StoredObject":
        """Return this object as it is after its Scale was written; see `scale`."""
        spec = _spec_of(self)
        replicas = _spec_of(shown).get("replicas", _raw(0))
        identity = msgspec.structs.replace(
            self.identity,
            generation=self.identity.generation + (replicas != spec["replicas"]),
            resource_version=shown.identity.resource_version,
        )
        metadata = {
            **_fields.decode(self.fields["metadata"]),
            "resourceVersion": _raw(identity.resource_version),
            "generation": _raw(identity.generation),
        }
        made = {"metadata": _raw(metadata), "spec": _raw({**spec, "replicas": replicas})}
        return self._replace(identity=identity, fields=self.fields | made)


_fields: Final = msgspec.json.Decoder(Fields)
_TEXTS: Final = {"?": ""}
_SOMETHING: Final = dict(zip(TOLD, (_TEXTS, _TEXTS, [{"uid": "?"}], ["?"]), strict=True))
"""What stands for fields of metadata of which nothing is known but that they are there."""
_items: Final = msgspec.json.Decoder(list[Fields] | None)
_text: Final = msgspec.json.Decoder(str)
_identity: Final = msgspec.json.Decoder(Identity)


def object_fields(raw: msgspec.Raw) -> Fields:
    """Return the top-level fields of a raw object; none if it is absent or a JSON Patch.

    Raises msgspec.MsgspecError and RecursionError for what cannot be decoded.
    """
    return _fields.decode(raw) if is_object(raw) else {}


def _taken(patch: dict[str, Any]) -> dict[str, Any]:
    return {
        key: _SOMETHING.get(key, "?") if value is None else _taken(value)
        for key, value in ({} if "apiVersion" in patch else patch).items()
        if value is None or isinstance(value, dict)
    }


def read_items(raw: msgspec.Raw) -> Iterator[StoredObject]:
    """Yield the objects of a list. Raises as above."""
    found = object_fields(raw)
    if "items" not in found or "kind" not in found or "apiVersion" not in found:
        return
    # An item does not say what it is: the list does.
    kind = _text.decode(found["kind"]).removesuffix("List")
    about = {"apiVersion": found["apiVersion"], "kind": _raw(kind)}
    for fields in _items.decode(found["items"]) or ():
        item = StoredObject.read(_raw({**about, **fields}))
        if item is not None:
            yield item


def _spec_of(stored: StoredObject) -> Fields:
    return _fields.decode(stored.fields["spec"]) if "spec" in stored.fields else {}


class StoredObjects:
    """The last known state of objects, by name."""

    def __init__(self) -> None:
        self._known: Final[Bounded[tuple[str, ...], StoredObject]] = Bounded(
            MOST_OBJECTS, MOST_BYTES
        )

    def get(self, reference: ObjectReference) -> StoredObject | None:
        """Return the last known state of an object."""
        return self._known.get(_name_of(reference))

    def put(self, reference: ObjectReference, stored: StoredObject) -> None:
        """Remember a state. It must not be changed afterwards; its texts are copied."""
        name = _name_of(reference)
        kept = {key: raw.copy() for key, raw in stored.fields.items()}
        self._known.put(name, stored._replace(fields=kept), sum(map(len, (*name, *kept.values()))))

    def forget(self, reference: ObjectReference) -> None:
        """Forget an object: it is gone."""
        self._known.pop(_name_of(reference))


def _name_of(reference: ObjectReference) -> tuple[str, ...]:
    return reference.api_group, reference.resource, reference.namespace, reference.name


def _raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))
