"""The variables of CEL conditions: what one request shows to them.

Source: apiserver pkg/admission/plugin/cel (compile.go for the names, condition.go for the values).
"""

from functools import cache, cached_property
from typing import Any, Final

import msgspec
from cel_expr_python import cel
from cel_expr_python.ext import ext_optional, ext_strings

from webhook.cel.message import Asked


class View:
    """What a message shows to expressions, converted once and only when asked for."""

    def __init__(self, asked: Asked) -> None:
        self._asked: Final = asked

    @property
    def has_objects(self) -> bool:
        """Whether expressions that read an object can be evaluated."""
        return self._asked.objects is not None

    @cached_property
    def request(self) -> cel.Activation:
        """For conditions that read no object; raises what cannot be decoded or converted."""
        return environment().Activation(self._variables())

    @cached_property
    def objects(self) -> cel.Activation:
        """For all conditions; raises likewise."""
        names, found = ("object", "oldObject"), self._asked.objects or ()
        both = {name: msgspec.json.decode(raw) for name, raw in zip(names, found, strict=True)}
        return environment().Activation(self._variables() | both)

    def _variables(self) -> dict[str, Any]:
        # As on the wire: what is empty is not there (k8s.io/api admission/v1/types.go).
        request = msgspec.json.decode(self._asked.request)
        variables: dict[str, Any] = {"request": request, "params": None}
        if not self._asked.namespaced:
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
