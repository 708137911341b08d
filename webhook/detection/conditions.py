"""matchConditions: who evaluates them, and what is known without.

Evaluation is a port. CEL has no bound of its own that holds: `webhook.cel` evaluates it in a
process that may be ended.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from webhook.admission.review import AdmissionRequest
from webhook.objects.selectors import Truth

_READS_OBJECT: Final = re.compile(r"(?<![\w.])object\b")


class Conditions(Protocol):
    """Evaluates the CEL expressions of matchConditions."""

    def evaluate(
        self, expressions: Iterable[str], request: AdmissionRequest
    ) -> Mapping[str, Truth]:
        """What each expression makes of a request, unknown where that cannot be told."""


class NotEvaluated:
    """Conditions where nobody evaluates them."""

    def evaluate(
        self, expressions: Iterable[str], request: AdmissionRequest
    ) -> Mapping[str, Truth]:
        """Unknown, each of them."""
        del request
        return dict.fromkeys(expressions, Truth.UNKNOWN)


def reads_object(expressions: Iterable[str]) -> bool:
    """Whether any of them may depend on the new object."""
    return any(_READS_OBJECT.search(one) for one in expressions)
