"""The expressions of health rules, compiled once and evaluated without limits, as in Flux.

Flux checks no types: each field at the top of an object is a variable. Here the usual ones are
declared, so that an expression with a slip in it is refused when it is loaded.

Relies  on cel-expr-python, CEL's own C++ runtime
Source  fluxcd/pkg runtime/cel/expression.go for the libraries that expressions may use
"""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple

from cel_expr_python import cel
from cel_expr_python.ext import ext_encoders, ext_optional, ext_strings

from genguard.status.health_rules import Answer, Key, NoAnswer
from genguard.status.view import Health

MOST_PROGRAMS: Final = 256
"""The longest of the library takes 20 KiB."""
FIELDS: Final = ("apiVersion", "kind", "metadata", "spec", "status", "data")
"""What is a variable in every rule. Another field at the top of an object becomes one when used."""
_MOST_NAMES: Final = 8
_UNDECLARED: Final = re.compile(r"undeclared reference to '([A-Za-z_]\w*)")
_ERROR: Final = re.compile(r"ERROR: <input>:(\d+):(\d+): (.*)")
_BAD_VALUE: Final = (RuntimeError, TypeError, ValueError, OverflowError)
_MEANT: Final = 0.7
"""How alike a name is that was probably meant."""


class _Program(NamedTuple):
    expression: cel.Expression
    names: tuple[str, ...]
    """Its variables."""


@lru_cache(MOST_PROGRAMS)
def compiled(expression: str, key: Key) -> _Program | str:
    """The program of an expression; else why it has none, with line and column."""
    names = list(FIELDS)
    for _ in range(_MOST_NAMES):
        try:
            program = environment(tuple(names)).compile(expression)
        except _BAD_VALUE as error:
            fields = [name for name in _UNDECLARED.findall(str(error)) if name not in names]
            meant = {name: get_close_matches(name, FIELDS, 1, _MEANT) for name in fields}
            wrong = next((name for name in fields if meant[name]), None)
            if wrong is not None:
                return f"{_place(error)}: there is no {wrong}: did you mean {meant[wrong][0]}?"
            if not fields:
                return _told(error)
            names += fields
        else:
            return _wrong_type(program, key) or _Program(program, tuple(names))
    return f"line 1, column 1: more than {_MOST_NAMES} names that are not known"


def evaluate_rule(expression: str, key: Key, document: Mapping[str, Any]) -> Answer:
    """Return the value of an expression over an object; an error where it has none.

    Raises RuntimeError or MemoryError where the runtime gives up: it stops after 10,000 iterations.
    """
    program = compiled(expression, key)
    if isinstance(program, str):
        return NoAnswer.ERROR
    given = {name: document[name] for name in program.names if name in document}
    try:
        variables = environment(program.names).Activation(given)
    except _BAD_VALUE:
        return NoAnswer.ERROR
    found = program.expression.eval(variables)
    return _ANSWERS.get(key, _boolean)(found)


@cache
def environment(names: tuple[str, ...]) -> cel.Env:
    """The libraries that Flux has, and these variables."""
    return cel.NewEnv(
        variables=dict.fromkeys(names, cel.Type.DYN),
        extensions=[
            ext_optional.ExtOptional(),
            ext_strings.ExtStrings(),
            ext_encoders.ExtEncoders(),
        ],
        functions=[_set_function(name, impl) for name, impl in _SETS.items()],
    )


def _contains(whole: Sequence[Any], part: Sequence[Any]) -> bool:
    return all(one in whole for one in part)


_SETS: Final = {
    "sets.contains": _contains,
    "sets.equivalent": lambda one, other: _contains(one, other) and _contains(other, one),
    "sets.intersects": lambda one, other: any(item in other for item in one),
}
"""CEL's library of sets (cel-go ext/sets.go), which the binding does not have."""


def _set_function(name: str, implementation: Any) -> cel.FunctionDecl:
    lists = [cel.Type.List(cel.Type.DYN)] * 2
    overload = cel.Overload(
        id=f"{name.replace('.', '_')}_lists",
        return_type=cel.Type.BOOL,
        parameters=lists,
        impl=implementation,
    )
    return cel.FunctionDecl(name, [overload])


_WANTED: Final = {Key.HEALTH: ("STRING",), Key.PROGRESS: ("DOUBLE", "INT", "UINT")}
_WORDS: Final = {
    Key.HEALTH: "one of 'Green', 'Yellow' and 'Red'",
    Key.PROGRESS: "a number between 0 and 1",
}


def _wrong_type(program: cel.Expression, key: Key) -> str:
    given = program.return_type().name()
    if given in ("DYN", *_WANTED.get(key, ("BOOL",))):
        return ""
    return f"line 1, column 1: it gives {given}, want {_WORDS.get(key, 'true or false')}"


def _boolean(found: cel.Value) -> Answer:
    return bool(found.plain_value()) if found.type() == cel.Type.BOOL else NoAnswer.ERROR


def _health(found: cel.Value) -> Answer:
    value = found.plain_value() if found.type() == cel.Type.STRING else ""
    return Health(value) if value in tuple(Health) else NoAnswer.ERROR


def _progress(found: cel.Value) -> Answer:
    if found.type() not in (cel.Type.DOUBLE, cel.Type.INT, cel.Type.UINT):
        return NoAnswer.ERROR
    value = found.plain_value()
    return round(value * 100) if 0 <= value <= 1 else NoAnswer.ERROR


_ANSWERS: Final = {Key.HEALTH: _health, Key.PROGRESS: _progress}


def _place(error: Exception) -> str:
    match = _ERROR.search(str(error))
    return f"line {match[1]}, column {match[2]}" if match else "line 1, column 1"


def _told(error: Exception) -> str:
    match = _ERROR.search(str(error))
    cause = match[3].partition(" expecting ")[0].removesuffix(" (in container '')") if match else ""
    return f"{_place(error)}: {cause or 'it cannot be compiled'}"
