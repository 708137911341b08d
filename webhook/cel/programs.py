"""CEL expressions, compiled once and evaluated without any bound: the worker process has those.

Relies  on cel-expr-python, CEL's own C++ runtime
"""

import re
from collections import OrderedDict
from typing import Final, NamedTuple

import msgspec
from cel_expr_python import cel

from webhook.cel.view import View, environment
from webhook.objects.selectors import Truth

MOST_PROGRAMS: Final = 64
"""A program of the longest text takes 0.4 MiB."""
_READS_EITHER: Final = re.compile(r"(?<![\w.])(?:object|oldObject)\b")
_BAD_VALUE: Final = (RuntimeError, TypeError, ValueError, OverflowError, msgspec.MsgspecError)
"""What the binding makes of a syntax error, and of a value that no API server sends."""


class _Program(NamedTuple):
    expression: cel.Expression
    reads_objects: bool

    def variables(self, view: View) -> cel.Activation | None:
        """What it runs on; None for objects that are too large, or cannot be converted."""
        if self.reads_objects and not view.has_objects:
            return None
        try:
            return view.objects if self.reads_objects else view.request
        except _BAD_VALUE:
            return None


class Programs:
    """Compiled expressions by their text, the longest unused out first."""

    def __init__(self) -> None:
        self._programs: Final[OrderedDict[str, _Program | None]] = OrderedDict()

    def holds(self, expression: str, view: View) -> Truth:
        """What the expression makes of what is shown.

        Unknown is an error, and a function that only Kubernetes has (authorizer, quantity).
        Raises RuntimeError or MemoryError where the runtime gives up: it stops after 10,000
        iterations.
        """
        program = self._program(expression)
        variables = program and program.variables(view)
        if program is None or variables is None:
            return Truth.UNKNOWN
        found = program.expression.eval(variables)
        if found.type() != cel.Type.BOOL:
            return Truth.UNKNOWN
        return Truth.TRUE if found.plain_value() else Truth.FALSE

    def _program(self, expression: str) -> _Program | None:
        if expression in self._programs:
            self._programs.move_to_end(expression)
            return self._programs[expression]
        program = self._programs[expression] = _compiled(expression)
        if len(self._programs) > MOST_PROGRAMS:
            self._programs.popitem(last=False)
        return program


def _compiled(expression: str) -> _Program | None:
    try:
        program = environment().compile(expression)
    except _BAD_VALUE:
        return None
    return _Program(program, bool(_READS_EITHER.search(expression)))
