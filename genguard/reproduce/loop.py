"""A loop as data, as loop.json has it: who writes what in turn, and what a webhook makes of it."""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

import msgspec

from genguard.objects.fields import ABSENT
from genguard.reproduce.recorded import Document

WRITES_PLAYED: Final = 120
"""Most loops are a warning after ten rounds, storms after thirty writes."""
Field = tuple[str, ...]


class Held(msgspec.Struct, frozen=True, omit_defaults=True):
    """A field that holds the generation, or the resourceVersion, that an object has then.

    object  resource, namespace and name; of the object itself where it is empty
    offset  so many more
    """

    field: Field
    what: str
    object: tuple[str, ...] = ()
    offset: int = 0


class Write(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One kind of write.

    verb     `patch`, `create`, `delete`; `put`, of an old version; or `move`, which stands for any
             change of the spec, and counts generation
    changes  merge patches (RFC 7386), of a create and a put whole objects
    renewed  fields that have another value in each write
    held     fields that hold a number of an object
    refused  the API server refused it in the recording: here a webhook does
    """

    user: str
    verb: str
    resource: str
    version: str
    namespace: str
    name: str
    subresource: str = ""
    changes: tuple[Document, ...] = ()
    renewed: tuple[Field, ...] = ()
    held: tuple[Held, ...] = ()
    refused: bool = False


class Effect(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a webhook does to one field in the writes of one resource.

    resource  with the subresource: `deployments.apps/status`
    users     whose writes; of everybody where it is empty
    field     the names of the field, from the outside
    does      `set`, to the next of the values in each call; `renew`, to a value that it never had;
              `remove`; or `append`, of a text
    """

    resource: str
    operation: str
    field: Field
    does: str
    values: tuple[Any, ...] = ()
    users: tuple[str, ...] = ()


class Beginning(msgspec.Struct, frozen=True):
    """An object that is there at the beginning; `resource` as in Write."""

    resource: str
    document: Document


class Loop(msgspec.Struct, frozen=True, rename="camel"):
    """Everything that the tests need; loop.json has it.

    culprit      the user whose writes are left out to see what happens without them; "" where a
                 webhook makes the loop
    severity     the least of a finding that makes the test red
    definitions  a CustomResourceDefinition of each custom resource, with any fields
    objects      what is there at the beginning
    order        the writes as they follow each other: each by its place in `writes`, and that of
                 its change. The tests repeat it until there were WRITES_PLAYED
    seconds      from one write to the next
    server_version  of Kubernetes, whose rules held
    """

    detector: str
    severity: str
    paths: tuple[str, ...]
    culprit: str
    definitions: tuple[Document, ...]
    objects: tuple[Beginning, ...]
    writes: tuple[Write, ...]
    effects: tuple[Effect, ...]
    order: tuple[tuple[int, int], ...]
    seconds: float
    server_version: str
    played: int = WRITES_PLAYED


_OF_SERVER: Final = (
    "name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink", "generateName",
)  # fmt: skip


def own_fields(document: Document, *, with_kind: bool = False) -> Document:
    """Return an object without what the server writes."""
    kept: Document = {
        key: value for key, value in document.items() if key not in ("apiVersion", "kind")
    }
    metadata = document.get("metadata") or {}
    kept["metadata"] = {key: one for key, one in metadata.items() if key not in _OF_SERVER}
    if with_kind:
        names = {key: metadata[key] for key in ("name", "namespace") if metadata.get(key)}
        if "name" not in names:
            names["generateName"] = "object-"
        kind: Document = {key: document[key] for key in ("apiVersion", "kind") if key in document}
        kept = {**kind, **kept, "metadata": {**names, **kept["metadata"]}}
    return kept


def without(document: Document, fields: AbstractSet[Field], at: Field = ()) -> Document:
    """Return an object without these fields."""
    return {
        key: without(value, fields, (*at, key)) if isinstance(value, dict) else value
        for key, value in document.items()
        if (*at, key) not in fields
    }


def differences(old: Any, new: Any, field: Field = ()) -> Iterator[tuple[Field, Any, Any]]:
    """Yield each field that differs, with both values; a list is one value."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys((*old, *new)):
            if field != ("metadata",) or key not in _OF_SERVER:
                yield from differences(old.get(key, ABSENT), new.get(key, ABSENT), (*field, key))
    elif old is ABSENT and isinstance(new, dict) and new:
        yield from differences({}, new, field)
    elif new is ABSENT and isinstance(old, dict) and old:
        yield from differences(old, {}, field)
    elif old is ABSENT or new is ABSENT or old != new:
        yield field, old, new


def is_renewed(values: Sequence[Any]) -> bool:
    """Whether a field never had the same text or number again."""
    plain = [one for one in values if isinstance(one, str | int) and not isinstance(one, bool)]
    return 1 < len(plain) == len(values) == len(set(plain))
