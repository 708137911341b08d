"""Set metadata.generation to what the kind's strategy gives it.

Reads   the prediction, and object.metadata.generation
Acts on CREATE and UPDATE of the object itself, not of Scale, Binding or Eviction
Result  an edit when the object carries another generation than the server would store: 1 on
        create, +1 on a counted change, the old one otherwise; a client's own value is overridden
Relies  on the server doing the same: kube-apiserver overrides the edit with an equal value
        (apiserver pkg/registry/rest/update.go:BeforeUpdate); other servers of the API take it
"""

from typing import ClassVar, Final

from genguard.admission.review import Operation
from genguard.patch.operations import GENERATION, Edit
from genguard.rules.rule import RuleInput

_MAX_INT64: Final = 2**63 - 1


class AssignGeneration:
    """See the module."""

    name: ClassVar[str] = "assign-generation"

    def evaluate(self, review: RuleInput) -> tuple[Edit, ...]:
        """At most one edit, of metadata.generation."""
        request, prediction = review.request, review.prediction
        if request.operation not in (Operation.CREATE, Operation.UPDATE) or request.object is None:
            return ()
        if prediction.step is None:
            return ()  # the review does not show enough to tell
        if prediction.generation is None and request.subresource:
            return ()  # a Scale or an Eviction: the generation belongs to its target
        stored = prediction.generation or 0
        if stored > _MAX_INT64:
            return ()  # the API server could not read it back, and would fail the user's request
        if request.object.metadata.stored_generation == stored:
            return ()
        return (Edit(GENERATION, stored),)
