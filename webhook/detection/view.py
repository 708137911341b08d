"""The variables of CEL conditions: what one request shows to them.

Source: apiserver pkg/admission/plugin/cel (compile.go for the names, condition.go for the values).
"""

from functools import cache, cached_property
from typing import Any, Final

import msgspec
from cel_expr_python import cel
from cel_expr_python.ext import ext_optional, ext_strings

from webhook.admission.review import AdmissionRequest, ReviewedObject


class View:
    """What a request shows to conditions, converted once and only when asked for."""

    def __init__(self, request: AdmissionRequest) -> None:
        self._request: Final = request

    @cached_property
    def size(self) -> int:
        """The bytes of both objects."""
        both = (self._request.object, self._request.old_object)
        fields = (raw for one in both if one is not None for raw in one.fields.values())
        return sum(memoryview(raw).nbytes for raw in fields)

    @cached_property
    def request(self) -> cel.Activation:
        """For conditions that read no object; raises what cannot be decoded or converted."""
        return environment().Activation(self._variables())

    @cached_property
    def objects(self) -> cel.Activation:
        """For all conditions; raises likewise."""
        both = {
            "object": _document(self._request.object),
            "oldObject": _document(self._request.old_object),
        }
        return environment().Activation(self._variables() | both)

    def _variables(self) -> dict[str, Any]:
        # As on the wire: what is empty is not there (k8s.io/api admission/v1/types.go).
        variables: dict[str, Any] = {"request": self._request.attributes, "params": None}
        if not self._request.wire.namespace:
            variables["namespaceObject"] = None  # of the others the labels are not known
        return variables


@cache
def environment() -> cel.Env:
    """The names and libraries that expressions may use; authorizer is not one of them."""
    names = ("object", "oldObject", "request", "params", "namespaceObject")
    return cel.NewEnv(
        variables=dict.fromkeys(names, cel.Type.DYN),
        extensions=[ext_optional.ExtOptional(), ext_strings.ExtStrings()],
    )


def _document(found: ReviewedObject | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {key: msgspec.json.decode(raw) for key, raw in found.fields.items()}
