"""CEL expressions, compiled once and evaluated without limits: the worker process has those.

Conditions see what they see in the API server. Rules see what they see in Flux, which checks no
types: each field at the top of an object is a variable. Here the usual ones are declared, so that
an expression with a slip in it is refused when it is loaded.

Relies  on cel-expr-python, CEL's own C++ runtime
Source  apiserver pkg/admission/plugin/cel (compile.go for the names of the variables, condition.go
        for their values); fluxcd/pkg runtime/cel/expression.go for the libraries of rules
"""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple

import msgspec
from cel_expr_python import cel
from cel_expr_python.ext import ext_encoders, ext_optional, ext_strings

from genguard.objects.selectors import Truth
from genguard.status.health_rules import Answer, Key, NoAnswer
from genguard.status.view import Health
from webhook.cel.worker import ReviewedRequest

MOST_CONDITIONS: Final = 64
"""A program of the longest text takes 0.4 MiB."""
MOST_RULES: Final = 256
"""The longest of the library takes 20 KiB."""
FIELDS: Final = ("apiVersion", "kind", "metadata", "spec", "status", "data")
"""What is a variable in every rule. Another field at the top of an object becomes one when used."""
_MOST_NAMES: Final = 8
_UNDECLARED: Final = re.compile(r"undeclared reference to '([A-Za-z_]\w*)")
_ERROR: Final = re.compile(r"ERROR: <input>:(\d+):(\d+): (.*)")
_MEANT: Final = 0.7
"""A name that is so much alike was probably meant."""
_BAD_VALUE: Final = (RuntimeError, TypeError, ValueError, OverflowError, msgspec.MsgspecError)
"""What the binding makes of a syntax error, and of a value that no API server sends."""
_CONDITION: Final = ("object", "oldObject", "request", "params", "namespaceObject")
"""The names that conditions may use; authorizer is not one of them."""
_READ: Final = {"request": "request", "object": "object", "oldObject": "old_object"}
"""The field of a ReviewedRequest that each is read from."""


@lru_cache(1)
def variables_of(asked: ReviewedRequest) -> cel.Activation | None:
    """The variables of the conditions over one request, which come one after the other.

    None where they cannot be decoded or converted.
    """
    try:
        # As on the wire: what is empty is not there (k8s.io/api admission/v1/types.go).
        given: dict[str, Any] = {
            name: msgspec.json.decode(getattr(asked, field)) for name, field in _READ.items()
        }
        if not asked.namespaced:
            given["namespaceObject"] = None  # the labels of the others are not known
        return _environment(_CONDITION).Activation({**given, "params": None})
    except _BAD_VALUE:
        return None


@cache
def _environment(names: tuple[str, ...]) -> cel.Env:
    """These variables, and the libraries that conditions or rules may use."""
    extensions = [ext_optional.ExtOptional(), ext_strings.ExtStrings()]
    functions = []
    if names != _CONDITION:
        extensions.append(ext_encoders.ExtEncoders())
        lists = [cel.Type.List(cel.Type.DYN)] * 2
        for name, impl in _SETS.items():
            own_name = f"{name.replace('.', '_')}_lists"
            overload = cel.Overload(own_name, cel.Type.BOOL, lists, impl=impl)
            functions.append(cel.FunctionDecl(name, [overload]))
    return cel.NewEnv(
        variables=dict.fromkeys(names, cel.Type.DYN), extensions=extensions, functions=functions
    )


def holds(expression: str, asked: ReviewedRequest) -> Truth:
    """Whether the expression is true of a request.

    The answer to an error is unknown, and so is that of a function that only Kubernetes has
    (authorizer, quantity).
    Raises RuntimeError or MemoryError where the runtime gives up: it stops after 10,000 iterations.
    """
    program, variables = condition(expression), variables_of(asked)
    if program is None or variables is None:
        return Truth.UNKNOWN
    found = program.eval(variables)
    if found.type() != cel.Type.BOOL:
        return Truth.UNKNOWN
    return Truth.TRUE if found.plain_value() else Truth.FALSE


@lru_cache(MOST_CONDITIONS)
def condition(expression: str) -> cel.Expression | None:
    """The program of an expression; None for one that cannot be compiled."""
    try:
        return _environment(_CONDITION).compile(expression)
    except _BAD_VALUE:
        return None


class _Rule(NamedTuple):
    expression: cel.Expression
    names: tuple[str, ...]
    """Its variables."""


@lru_cache(MOST_RULES)
def rule_program(expression: str, key: Key) -> _Rule | str:
    """The program of an expression; else why it has none, with line and column."""
    names = list(FIELDS)
    for _ in range(_MOST_NAMES):
        try:
            program = _environment(tuple(names)).compile(expression)
        except _BAD_VALUE as error:
            fields = [name for name in _UNDECLARED.findall(str(error)) if name not in names]
            meant = {name: get_close_matches(name, FIELDS, 1, _MEANT) for name in fields}
            wrong = next((name for name in fields if meant[name]), None)
            if wrong is not None:
                return f"{_position(error)}: there is no {wrong}: did you mean {meant[wrong][0]}?"
            if not fields:
                return _told(error)
            names += fields
        else:
            return _wrong_type(program, key) or _Rule(program, tuple(names))
    return f"line 1, column 1: more than {_MOST_NAMES} names that are not known"


def complaint(expression: str, key: Key) -> str:
    """Why an expression of a rule cannot be used, with line and column; "" where it can."""
    program = rule_program(expression, key)
    return program if isinstance(program, str) else ""


@lru_cache(1)
def _decoded(document: bytes) -> Mapping[str, Any]:
    """Decode an object; the expressions of its rule come one after the other."""
    return msgspec.json.decode(document, type=dict[str, Any])


def evaluate_rule(expression: str, keys: Mapping[str, Key], document: bytes) -> Answer:
    """Return the value of one of a rule's expressions over an object in JSON; or an error.

    Raises RuntimeError or MemoryError where the runtime gives up: it stops after 10,000 iterations.
    """
    key = keys[expression]
    program, fields = rule_program(expression, key), _decoded(document)
    if isinstance(program, str):
        return NoAnswer.ERROR
    given = {name: fields[name] for name in program.names if name in fields}
    try:
        variables = _environment(program.names).Activation(given)
    except _BAD_VALUE:
        return NoAnswer.ERROR
    found = program.expression.eval(variables)
    if found.type().name() not in _WANTED.get(key, _TRUTH)[0]:
        return NoAnswer.ERROR
    value = found.plain_value()
    if key is Key.HEALTH:
        return Health(value) if value in tuple(Health) else NoAnswer.ERROR
    if key is Key.PROGRESS:
        return round(value * 100) if 0 <= value <= 1 else NoAnswer.ERROR
    return bool(value)


def _contains(values: Sequence[Any], part: Sequence[Any]) -> bool:
    return all(item in values for item in part)


_SETS: Final = {
    "sets.contains": _contains,
    "sets.equivalent": lambda this, other: _contains(this, other) and _contains(other, this),
    "sets.intersects": lambda this, other: any(item in other for item in this),
}
"""CEL's library of sets (cel-go ext/sets.go), which the binding does not have."""


_WANTED: Final = {
    Key.HEALTH: (("STRING",), "one of 'Green', 'Yellow' and 'Red'"),
    Key.PROGRESS: (("DOUBLE", "INT", "UINT"), "a number between 0 and 1"),
}
_TRUTH: Final = (("BOOL",), "true or false")


def _wrong_type(program: cel.Expression, key: Key) -> str:
    given, (types, words) = program.return_type().name(), _WANTED.get(key, _TRUTH)
    if given in ("DYN", *types):
        return ""
    return f"line 1, column 1: it gives {given}, want {words}"


def _position(error: Exception) -> str:
    match = _ERROR.search(str(error))
    return f"line {match[1]}, column {match[2]}" if match else "line 1, column 1"


def _told(error: Exception) -> str:
    match = _ERROR.search(str(error))
    cause = match[3].partition(" expecting ")[0].removesuffix(" (in container '')") if match else ""
    return f"{_position(error)}: {cause or 'it cannot be compiled'}"
