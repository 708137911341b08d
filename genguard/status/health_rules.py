"""Rules for custom kinds, in CEL: when an object is current, in progress or failed.

A rule is data. Whoever calls evaluate() has its expressions evaluated and passes the answers: this
module imports no CEL. What comes before any rule stays before these rules too: a field of a wrong
type, deletion, and a status of an older generation (genguard/status/evaluate.py).

Source  Flux RFC 0009 and fluxcd/pkg runtime/cel/status_evaluator.go for current, inProgress and
        failed, their order, and that a rule is found by group and kind whatever the version.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cached_property
from typing import Any, Final, NamedTuple

import msgspec

from genguard.objects.fields import ABSENT, get
from genguard.status.checked_object import CheckedObject, Conditions
from genguard.status.kind_rule import KindResult
from genguard.status.kinds import KINDS
from genguard.status.kinds.generic import evaluate_generic
from genguard.status.view import Blocks, Health, Reason, remark, short_word

MOST_RULES: Final = 500
"""Of one file or ConfigMap."""
LONGEST: Final = 4_096
"""Characters of one expression."""
LISTS: Final = ("rules", "healthCheckExprs")
"""The keys of a list of rules: ours, and that of Flux' Kustomization and HelmRelease."""
_MOST_READ: Final = 3
_EVERY: Final = "*."
"""Begins the group of a rule for every group below a domain: `*.upbound.io`."""


class Key(StrEnum):
    """The expressions that a rule may have."""

    IN_PROGRESS = "inProgress"
    FAILED = "failed"
    CURRENT = "current"
    READY = "ready"
    SETTLED = "settled"
    HEALTH = "health"
    PROGRESS = "progress"


_FLUX: Final = (Key.IN_PROGRESS, Key.FAILED, Key.CURRENT)
"""In the order in which they are asked: the first one that is true decides."""


class NoAnswer(StrEnum):
    """Why an expression has no value."""

    ERROR = "error"
    """It reads a field that is not there, or gives a value of another type than its key needs."""


Answer = bool | int | Health | NoAnswer
"""The value of an expression: progress is a whole number of per cent."""


class BadRuleError(ValueError):
    """A rule cannot be used; the message says which, where and why."""


class HealthRule(msgspec.Struct, frozen=True):
    """One rule. `kind` "" stands for every kind of the group that has no rule of its own."""

    group: str
    kind: str
    expressions: Mapping[Key, str]
    source: str
    """The file or ConfigMap that it comes from, or the name of its project in the library."""

    def __str__(self) -> str:
        """`Rollout.argoproj.io`; `every kind of rabbitmq.com`."""
        return f"{self.kind}.{self.group}" if self.kind else f"every kind of {self.group}"


class RuleAnswers(NamedTuple):
    """A rule, and what its expressions say of one object; {} where they were not evaluated."""

    rule: HealthRule
    values: Mapping[Key, Answer]


class HealthRules:
    """The rules of a server or a run: those of its user, then those of the library."""

    def __init__(
        self, own: Iterable[HealthRule] = (), library: Callable[[], Iterable[HealthRule]] = tuple
    ) -> None:
        """`library` is read when a rule is looked for: that takes a tenth of a second."""
        self.own: Final = tuple(own)
        self._own: Final = {(rule.group, rule.kind): rule for rule in self.own}
        self._read: Final = library

    @cached_property
    def _library(self) -> Mapping[tuple[str, str], HealthRule]:
        return {(rule.group, rule.kind): rule for rule in self._read()}

    def find(self, group: str, kind: str) -> HealthRule | None:
        """Return the rule for a kind; None for kinds without one, and for built-in kinds.

        The user's rule for a whole group comes before the library's for one of its kinds.
        """
        if (group, kind) in KINDS or "." not in group:
            return None
        return _find(self._own, group, kind) or _find(self._library, group, kind)


def _find(rules: Mapping[tuple[str, str], HealthRule], group: str, kind: str) -> HealthRule | None:
    """Return the rule for a kind, else for its group, else for the nearest domain above it."""
    candidates = [(group, kind), (group, "")]
    domain = group
    while domain := domain.partition(".")[2]:
        candidates += [(f"{_EVERY}{domain}", kind), (f"{_EVERY}{domain}", "")]
    return next((rules[candidate] for candidate in candidates if candidate in rules), None)


def parse_rules(document: Any, source: str) -> tuple[HealthRule, ...]:
    """Read the rules of a document: `rules: [...]`, or `healthCheckExprs: [...]` as Flux has it.

    A Kustomization or HelmRelease of Flux has them in its spec. Raises BadRuleError, which names
    neither file nor line.
    """
    listed = _list_of(document)
    if len(listed) > MOST_RULES:
        raise BadRuleError(f"more than {MOST_RULES} rules: give some of them to another file")
    return tuple(_parse_rule(rule, f"rules[{at}]", source) for at, rule in enumerate(listed))


def distinct(rules: Iterable[HealthRule]) -> tuple[HealthRule, ...]:
    """Return the same rules; raises BadRuleError for the second one for a kind."""
    found: dict[tuple[str, str], HealthRule] = {}
    for rule in rules:
        known = found.setdefault((rule.group, rule.kind), rule)
        if known is not rule:
            told = f"a second rule for {rule}: there is one in {known.source}: remove one of them"
            raise BadRuleError(f"{rule.source}: {told}")
    return tuple(found.values())


def _list_of(document: Any) -> list[Any]:
    if isinstance(document, Mapping):
        spec = document.get("spec")
        for candidate in (document, spec if isinstance(spec, Mapping) else {}):
            for key in LISTS:
                if isinstance(candidate.get(key), list):
                    return candidate[key]  # type: ignore[no-any-return]  # a list: just checked
    raise BadRuleError(f"no list `{LISTS[0]}` (or `{LISTS[1]}`, as Flux calls it)")


_EXPRESSIONS: Final = frozenset(key.value for key in Key)
_KEYS: Final = frozenset({"apiVersion", "kind", *_EXPRESSIONS})


def _parse_rule(item: Any, path: str, source: str) -> HealthRule:
    if not isinstance(item, Mapping):
        raise BadRuleError(f"{path}: not a mapping with apiVersion, kind and current")
    group, kind = _parse_kind(item, path)
    name = f"{path} ({kind or '*'}.{group})"
    if unknown := sorted(set(map(str, item)) - _KEYS):
        allowed = ", ".join(key.value for key in Key)
        raise BadRuleError(f"{name}: unknown key {short_word(unknown[0])}; there are {allowed}")
    found = {
        key: _parse_expression(item[key.value], f"{name}.{key}")
        for key in Key
        if item.get(key.value) not in (None, "")
    }
    if Key.CURRENT not in found:
        raise BadRuleError(f"{name}: no expression `current`")
    return HealthRule(group, kind, found, source)


def _parse_kind(item: Mapping[Any, Any], path: str) -> tuple[str, str]:
    """Return group and kind; "" is every kind of the group."""
    version, kind = item.get("apiVersion"), item.get("kind", "")
    if not isinstance(version, str) or not version:
        raise BadRuleError(f"{path}.apiVersion: give the group and a version: example.org/v1")
    if not isinstance(kind, str):
        raise BadRuleError(f"{path}.kind: not a text")
    group = version.rpartition("/")[0]
    if (group, kind) in KINDS or "." not in group:
        message = "built in, and evaluated by genguard itself: remove this rule"
        raise BadRuleError(f"{path}: {kind or 'this group'} of {version} is {message}")
    return group, kind


def _parse_expression(text: Any, name: str) -> str:
    if isinstance(text, bool):
        return str(text).lower()  # YAML's own true is CEL's
    if not isinstance(text, str):
        raise BadRuleError(f"{name}: not a text: put the expression in quotes")
    if len(text) > LONGEST:
        raise BadRuleError(f"{name}: more than {LONGEST} characters")
    return text


def evaluate_by_rule(answers: RuleAnswers, obj: CheckedObject) -> KindResult:
    """Return the result of a rule from the answers of its expressions.

    The first of inProgress, failed and current that is true decides. Where none is, or one of them
    cannot be evaluated, the object is in progress. `ready` and `settled` say otherwise for
    themselves alone. Without answers, because the object is too large or the rule too costly, its
    conditions decide.
    """
    values = answers.values
    if not values:
        why = remark("its rule", have="not evaluated", note="evaluated by its conditions instead")
        result = evaluate_generic(obj)
        return result._replace(reasons=(*result.reasons, why))
    deciding = (key for key in _FLUX if values.get(key, False) in (True, NoAnswer.ERROR))
    key = next(deciding, Key.CURRENT)
    held = values.get(key, False)
    if isinstance(held, NoAnswer):
        key = Key.CURRENT  # whichever could not be evaluated, this is what is waited for
    failed = key is Key.FAILED and held is True
    current = key is Key.CURRENT and held is True
    ready, settled = current, current or failed
    own_ready, own_settled = values.get(Key.READY), values.get(Key.SETTLED)
    if own_ready is not None:
        ready = own_ready is True
        key = Key.READY if current and not ready else key
    if own_settled is not None:
        settled = own_settled is True
        key = Key.SETTLED if current and ready and not settled else key
    health, progress = values.get(Key.HEALTH), values.get(Key.PROGRESS)
    reasons = [*_said_beside(obj)]
    if failed or not (ready and settled):
        blocks = _BLOCKS[ready, settled]
        is_error = isinstance(held, NoAnswer) or isinstance(values.get(key), NoAnswer)
        reasons = [*_reasons(answers.rule, key, obj, blocks, is_error=is_error), *reasons]
    return KindResult(
        reasons,
        failed=failed,
        broken=health is Health.RED,
        degraded=health is Health.YELLOW,
        progress=progress / 100 if type(progress) is int else None,
    )


_BLOCKS: Final = {
    (False, False): Blocks.BOTH,
    (False, True): Blocks.READY,
    (True, False): Blocks.SETTLED,
    (True, True): Blocks.NOTHING,
}


def _reasons(
    rule: HealthRule, key: Key, obj: CheckedObject, blocks: Blocks, *, is_error: bool
) -> Iterator[Reason]:
    """Yield the fields that the deciding expression reads, with their values; else its name."""
    wanted = "false" if key in (Key.IN_PROGRESS, Key.FAILED) else "true"
    want = f"`{key}` {wanted}" if blocks else ""
    found = _read(rule.expressions[key], key, obj)
    for path, have, note in found[:_MOST_READ]:
        yield Reason(path, have, want, note, blocks)
    if not found:
        have = "cannot be evaluated" if is_error else str(wanted == "false").lower()
        note = "a field that its rule reads is not there" if is_error else ""
        yield Reason(f"`{key}` of its rule", have, wanted if blocks else "", note, blocks)


def _said_beside(obj: CheckedObject) -> Iterator[Reason]:
    """Yield what is wanted so: somebody paused it, or it has nothing to scale for."""
    try:
        conditions = obj.conditions()
    except ValueError:
        return
    for name, status in (("Paused", "True"), ("Active", "False")):
        condition = conditions.get(name)
        if condition is not None and condition.status == status:
            yield remark(condition.path, have=status, note=condition.note)


_TYPE_IN: Final = re.compile(r"\.type\s+in\s+\[([^\]]*)\]")
_QUOTED: Final = re.compile(r"""(['"])([\w./-]+)\1""")
_TYPE_IS: Final = re.compile(r"""\.type\s*==\s*(['"])([\w./-]+)\1""")
_PATH: Final = re.compile(r"(?<![\w.'\"])status(?:\.\??[A-Za-z_]\w*)+(?!\w*\s*\()")
_CONDITIONS: Final = re.compile(r"(?<![\w.])status\.\??conditions\b")
_Read = tuple[str, Any, str]


def _read(expression: str, key: Key, obj: CheckedObject) -> list[_Read]:
    """Return path, value and note of each condition and plain field of status that is read.

    Values are numbers, booleans and words of conditions and phases: never free text.
    """
    try:
        conditions = obj.conditions()
    except ValueError:
        conditions = Conditions()
    # Else it reads the conditions of listeners or parents.
    named = _TYPE_IS.findall(expression) if _CONDITIONS.search(expression) else ()
    found: list[_Read] = []
    for name in dict.fromkeys(name for _, name in named):
        condition = conditions.get(name)
        have = ABSENT if condition is None else short_word(condition.status)
        note = "" if condition is None else condition.note
        found.append((f"status.conditions[{name}]", have, note))
    # What is True is seldom what is missing, and what is absent seldom what is in the way.
    unlikely = "True" if key is Key.CURRENT else ABSENT
    found = [read for read in found if read[1] != unlikely] or found
    for path in dict.fromkeys(_PATH.findall(expression)):
        steps = path.replace("?", "").split(".")
        while len(steps) > 2 and get(obj.status, *steps[1:-1]) is ABSENT:  # noqa: PLR2004 - status.x
            steps.pop()
        value = get(obj.status, *steps[1:])
        if isinstance(value, list) and steps != ["status", "conditions"]:
            found += _read_in_items(".".join(steps), value, expression, key, obj)
        if not isinstance(value, (Mapping, list)) and steps != ["status", "conditions"]:
            is_plain = value is ABSENT or isinstance(value, (bool, int))
            found.append((".".join(steps), value if is_plain else short_word(value), ""))
    return list(dict.fromkeys(found))


def _read_in_items(
    path: str, items: list[Any], expression: str, key: Key, obj: CheckedObject
) -> Iterator[_Read]:
    """Yield the conditions of listeners, parents or the like that are not as they should be.

    Each item has conditions of its own; a parent is named by its reference.
    """
    listed = (name for names in _TYPE_IN.findall(expression) for _, name in _QUOTED.findall(names))
    named = {*listed, *(name for _, name in _TYPE_IS.findall(expression))}
    if not items:
        yield path, 0, "nobody has reported on it"
    for index, item in enumerate(item for item in items if isinstance(item, dict)):
        names = (get(item, key) for key in ("name", "parentRef", "ancestorRef"))
        name = next((name for name in names if name is not ABSENT), index)
        name = name.get("name", index) if isinstance(name, dict) else name
        try:
            conditions = Conditions.of((f"{path}[{short_word(name)}]", item))
        except ValueError:
            continue
        for condition in conditions.values():
            is_old = key is Key.CURRENT and condition.stale(obj.generation)
            if (condition.type in named or is_old) and (condition.status != "True" or is_old):
                note = ", ".join(
                    filter(None, (condition.note, "of an older spec" if is_old else ""))
                )
                yield condition.path, short_word(condition.status), note
