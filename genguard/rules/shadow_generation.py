"""Keep a generation in an annotation, for kinds whose server keeps none.

Reads   every top-level field but metadata and status, and the annotation on both objects
Acts on CREATE and UPDATE of the resources the user named
Result  `genguard.io/generation`: "1" on create, +1 when anything but metadata and status changes,
        otherwise what was stored, whatever the client sent
Relies  on annotations not counting for these kinds: a kind whose server keeps a generation is
        refused, above all Deployments, where the annotation itself would move it
"""

import re
from collections.abc import Iterable
from typing import Any, ClassVar, Final

import msgspec

from genguard.admission.review import Operation, ReviewedObject
from genguard.generation.table import GenerationTable
from genguard.patch.edit import Edit
from genguard.rules.rule import RuleInput, intent_changed

ANNOTATION: Final = "genguard.io/generation"


class NotShadowableError(ValueError):
    """A resource that cannot have a shadow generation; the message says why."""


class ShadowGeneration:
    """See the module."""

    name: ClassVar[str] = "shadow-generation"

    def __init__(self, table: GenerationTable, resources: Iterable[str]) -> None:
        """`resources` as kubectl writes them: `services`, `roles.rbac.authorization.k8s.io`.

        Raises NotShadowableError.
        """
        self._resources: Final = frozenset(_checked(table, name.strip()) for name in resources)

    def evaluate(self, review: RuleInput) -> tuple[Edit, ...]:
        """At most one edit, of the annotation."""
        request = review.request
        resource = request.wire.resource
        if (resource.group, resource.resource) not in self._resources or request.object is None:
            return ()
        have = _annotation(request.object)
        if request.operation is Operation.CREATE and not request.subresource:
            wanted = "1"
        elif request.operation is Operation.UPDATE and request.old_object is not None:
            stored = _annotation(request.old_object)
            generation = int(stored) if re.fullmatch(r"[0-9]{1,18}", stored) else 0
            # A write to a subresource takes nothing that counts from the request.
            counts = not request.subresource and intent_changed(request.object, request.old_object)
            wanted = str(generation + 1) if counts else stored
        else:
            return ()
        if have == wanted or not wanted:
            return ()
        return (Edit(("metadata", "annotations", ANNOTATION), wanted),)


def _checked(table: GenerationTable, name: str) -> tuple[str, str]:
    resource, _, group = name.partition(".")
    strategy = table.find(group, resource)
    if strategy is None:
        raise NotShadowableError(
            f"shadow generation of {name!r}: not a built-in resource without generation; "
            "custom resources have one of their own. Names are as kubectl api-resources shows "
            "them: services, roles.rbac.authorization.k8s.io"
        )
    if strategy.keeps_generation:
        hint = (
            " (an annotation would even move it)"
            if "/metadata/annotations" in strategy.compare
            else ""
        )
        raise NotShadowableError(
            f"shadow generation of {name!r}: the API server keeps metadata.generation for it{hint};"
            " leave it out of --shadow-generation"
        )
    return group, resource


class _Annotations(msgspec.Struct):
    generation: Any = msgspec.field(default="", name=ANNOTATION)


_decoder: Final = msgspec.json.Decoder(_Annotations | None)


def _annotation(reviewed: ReviewedObject) -> str:
    raw = reviewed.metadata.annotations
    decoded = None if isinstance(raw, msgspec.UnsetType) else _decoder.decode(raw)
    return decoded.generation if decoded and isinstance(decoded.generation, str) else ""
