"""CEL expressions, compiled once and evaluated without limits: the worker process has those.

Relies  on cel-expr-python, CEL's own C++ runtime
Source  apiserver pkg/admission/plugin/cel (compile.go for the names of the variables, condition.go
        for their values)
"""

import re
from functools import cache, cached_property, lru_cache
from typing import Any, Final, NamedTuple

import msgspec
from cel_expr_python import cel
from cel_expr_python.ext import ext_optional, ext_strings

from genguard.objects.selectors import Truth
from webhook.cel.message import EvaluationRequest

MOST_PROGRAMS: Final = 64
"""A program of the longest text takes 0.4 MiB."""
_READS_EITHER: Final = re.compile(r"(?<![\w.])(?:object|oldObject)\b")
_BAD_VALUE: Final = (RuntimeError, TypeError, ValueError, OverflowError, msgspec.MsgspecError)
"""What the binding makes of a syntax error, and of a value that no API server sends."""


class Variables:
    """The variables of the expressions over one request, converted once and only when needed."""

    def __init__(self, asked: EvaluationRequest) -> None:
        self._asked: Final = asked

    @property
    def has_objects(self) -> bool:
        """Whether expressions that read an object can be evaluated."""
        return self._asked.objects is not None

    @cached_property
    def request(self) -> cel.Activation:
        """For conditions that read no object; raises what cannot be decoded or converted."""
        return environment().Activation(self._common())

    @cached_property
    def objects(self) -> cel.Activation:
        """For all conditions; raises likewise."""
        names, found = ("object", "oldObject"), self._asked.objects or ()
        both = {name: msgspec.json.decode(raw) for name, raw in zip(names, found, strict=True)}
        return environment().Activation(self._common() | both)

    def _common(self) -> dict[str, Any]:
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


class _Program(NamedTuple):
    expression: cel.Expression
    reads_objects: bool

    def variables(self, given: Variables) -> cel.Activation | None:
        """The variables that it reads; None for objects too large, or that cannot be converted."""
        if self.reads_objects and not given.has_objects:
            return None
        try:
            return given.objects if self.reads_objects else given.request
        except _BAD_VALUE:
            return None


def holds(expression: str, given: Variables) -> Truth:
    """Whether the expression is true of these variables.

    Unknown is an error, and a function that only Kubernetes has (authorizer, quantity).
    Raises RuntimeError or MemoryError where the runtime gives up: it stops after 10,000 iterations.
    """
    program = compiled(expression)
    variables = program and program.variables(given)
    if program is None or variables is None:
        return Truth.UNKNOWN
    found = program.expression.eval(variables)
    if found.type() != cel.Type.BOOL:
        return Truth.UNKNOWN
    return Truth.TRUE if found.plain_value() else Truth.FALSE


@lru_cache(MOST_PROGRAMS)
def compiled(expression: str) -> _Program | None:
    """The program of an expression; None for one that cannot be compiled."""
    try:
        program = environment().compile(expression)
    except _BAD_VALUE:
        return None
    return _Program(program, bool(_READS_EITHER.search(expression)))
