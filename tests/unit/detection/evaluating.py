"""Evaluates matchConditions in the process of the tests."""

from collections.abc import Iterable, Mapping

from genguard.admission.review import AdmissionRequest
from genguard.objects.selectors import Truth
from webhook.cel.evaluator import reviewed_request
from webhook.cel.programs import holds


class Evaluated:
    """The conditions of a Mutators, without the worker and its limits."""

    def evaluate(
        self, expressions: Iterable[str], request: AdmissionRequest
    ) -> Mapping[str, Truth]:
        asked = reviewed_request(request)
        assert asked is not None
        return {one: holds(one, asked) for one in expressions}


CONDITIONS = Evaluated()
