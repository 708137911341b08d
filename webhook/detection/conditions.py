"""matchConditions in CEL: whether the API server calls a webhook or a policy for a request.

Relies  on cel-expr-python, CEL's own C++ runtime: it parses 32 levels deep, stops after 10,000
        iterations, and its regular expressions (RE2) are linear. What it does not bound is refused
        here before it is compiled: values that grow from step to step
Result  false where one condition is false, whatever the others say, and true where all are
        (apiserver pkg/admission/plugin/webhook/matchconditions). Everything else is unknown: an
        error, a function that only Kubernetes has (authorizer, quantity), an object too large
"""

import re
from collections import OrderedDict
from collections.abc import Iterable
from math import prod
from typing import Final, NamedTuple

import msgspec
from cel_expr_python import cel

from webhook.detection.view import View, environment
from webhook.objects.selectors import Truth, every

MOST_BYTES: Final = 128 * 1024
"""Of object and oldObject: what is larger takes too long to convert and to compare."""
MOST_BYTES_LOOPED: Final = 32 * 1024
"""The same where a macro may stand inside another: 10,000 comparisons of so much take seconds."""
MOST_PROGRAMS: Final = 1_000
LONGEST: Final = 4_096
"""Characters of one expression."""
_MOST_GROWTH: Final = 16

_LITERAL: Final = re.compile(
    r"""[rR][bB]?(?:\"{3}.*?\"{3}|'{3}.*?'{3}|"[^"]*"|'[^']*')"""
    r"""|\"{3}.*?\"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|//[^\n]*""",
    re.DOTALL,
)
_GROWS: Final = re.compile(r"\.\s*(?:replace|join|format|quote)\s*\(")
_MAKES: Final = re.compile(r"\+|\.\s*(?:map|optMap|optFlatMap)\s*\(|[\[{][^\]}]*[A-Za-z_]")
_MACRO: Final = re.compile(
    r"\.\s*(?:all|exists|exists_one|existsOne|filter|map|optMap|optFlatMap)\s*\(\s*(\w+)"
)
_READS_OBJECT: Final = re.compile(r"(?<![\w.])object\b")
_READS_EITHER: Final = re.compile(r"(?<![\w.])(?:object|oldObject)\b")
_ANY_FAILURE: Final = (RuntimeError, TypeError, ValueError, OverflowError, MemoryError)
"""What the binding makes of a C++ error: a syntax error, a budget that is spent, a bad value."""


class _Program(NamedTuple):
    """`most`: how large the objects may be that it reads, 0 where it reads none."""

    expression: cel.Expression
    most: int

    def variables(self, view: View) -> cel.Activation | None:
        """What it runs on; None for objects that are too large, or cannot be converted."""
        if self.most and view.size > self.most:
            return None
        try:
            return view.objects if self.most else view.request
        except (*_ANY_FAILURE, msgspec.MsgspecError):
            return None


class Conditions:
    """Compiled expressions by their text, the longest unused out first."""

    def __init__(self) -> None:
        self._programs: Final[OrderedDict[str, _Program | None]] = OrderedDict()

    def hold(self, expressions: Iterable[str], view: View) -> Truth:
        """Whether all of them hold for what a request shows."""
        return every([self._holds(one, view) for one in expressions])

    def _holds(self, expression: str, view: View) -> Truth:
        program = self._program(expression)
        variables = program and program.variables(view)
        if program is None or variables is None:
            return Truth.UNKNOWN
        try:
            found = program.expression.eval(variables)
        except _ANY_FAILURE:
            # An error of the expression is a value: what is raised is a budget that is spent.
            self._programs[expression] = None
            return Truth.UNKNOWN
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
    if not is_bounded(expression):
        return None
    try:
        program = environment().compile(expression)
    except _ANY_FAILURE:
        return None
    code = _LITERAL.sub(" ", expression)
    if not _READS_EITHER.search(code):
        return _Program(program, 0)
    return _Program(program, MOST_BYTES_LOOPED if len(_MACRO.findall(code)) > 1 else MOST_BYTES)


def is_bounded(expression: str) -> bool:
    """Whether its values cannot grow beyond some times the object.

    A macro's variable that is used n times makes what is built from it n times as large, and a
    macro over that again: the API server stops this by a budget that the C++ runtime has not.
    """
    if len(expression) > LONGEST:
        return False
    code = _LITERAL.sub(" ", expression)
    if _GROWS.search(code):
        return False
    if not _MAKES.search(code):
        return True
    uses = (len(re.findall(rf"(?<![\w.]){name}\b", code)) - 1 for name in _MACRO.findall(code))
    return prod(max(one, 1) for one in uses) <= _MOST_GROWTH


def reads_object(expressions: Iterable[str]) -> bool:
    """Whether any of them may depend on the new object."""
    return any(_READS_OBJECT.search(one) for one in expressions)
