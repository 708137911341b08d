"""Evaluates matchConditions and rules in a worker process, with a limit on CPU, memory and time.

An expression that the API server accepts can take seconds and gigabytes over an object that a
tenant made. CEL's C++ runtime counts iterations alone, so a budget of our own would have to know
the cost of each function. A process has limits that hold whatever runs in it.

What exceeds them is remembered by its text and not evaluated again: its webhook stays a
possible cause, and objects of its rule are evaluated by their conditions. Calls block: on an event
loop they are made in a thread.
"""

import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from contextlib import AbstractContextManager
from threading import Lock
from typing import Any, Final

import msgspec
from cachetools import LRUCache

from genguard.admission.review import AdmissionRequest
from genguard.objects.selectors import Truth
from genguard.status.health_rules import HealthRule, HealthRules, Key, RuleAnswers
from genguard.status.trees import group_and_kind
from webhook.cel import worker
from webhook.telemetry.logs import LOGGER

LONGEST: Final = 4_096
"""Characters of one expression."""
MOST_BYTES: Final = 128 * 1024
"""Bytes of a request with its objects: larger ones are not evaluated."""
MOST_REMEMBERED: Final = 1_000
_TOLD: Final = 200
_ANSWER_SECONDS: Final = 15.0
"""Sixty times what the worker's CPU limit allows, for a machine that is busy."""
_START_SECONDS: Final = 30.0
"""A start takes half a second, unless the machine stands still."""
_RETRY_SECONDS: Final = 60.0
_TRIES: Final = 2
"""How often a limit is exceeded before an expression counts as costly, or a start fails before
there is a pause: a virtual machine counts a moment in which it stands still as processor time."""
_CONDITION: Final = ("a matchCondition", "its webhook stays possible")
_RULE: Final = ("an expression of a rule", "its objects are evaluated by their conditions")
"""What is evaluated, and what follows where it costs too much: for the log."""
_FAILURES: Final = (BrokenExecutor, TimeoutError, OSError, RuntimeError, MemoryError)
"""A worker that was ended, does not answer, or gave up: CEL stops after 10,000 iterations."""


class Evaluator(AbstractContextManager["Evaluator"]):
    """It starts its worker when it is first used, and again after it has ended.

    started  how many workers were started
    """

    def __init__(
        self, limits: worker.Limits | None = None, answer_seconds: float = _ANSWER_SECONDS
    ) -> None:
        """`limits` are the worker's; a call waits for `answer_seconds` at most."""
        self._limits: Final = limits or worker.Limits()
        self._answer_seconds: Final = answer_seconds
        self._pool: ProcessPoolExecutor | None = None
        self._costly: Final[LRUCache[str, None]] = LRUCache(MOST_REMEMBERED)
        self._lock: Final = Lock()
        self._is_closed = False
        self._not_before = 0.0
        self.pid: int | None = None
        """The process of the worker, while there is one."""
        self.started = 0

    def __exit__(self, *_: object) -> None:
        self._is_closed = True
        self._kill()  # callers that wait for an answer get none
        with self._lock:
            self._end()

    @property
    def costly(self) -> int:
        """How many expressions have exceeded a limit."""
        return len(self._costly)

    def evaluate(
        self, expressions: Iterable[str], request: AdmissionRequest
    ) -> Mapping[str, Truth]:
        """Whether each expression is true of a request.

        The answer is unknown, too, where the object is too large, and where the expression is too
        long or has exceeded a limit.
        """
        found = dict.fromkeys(expressions, Truth.UNKNOWN)
        asked = reviewed_request(request)
        if asked is None:
            return found
        short = [expression for expression in found if len(expression) <= LONGEST]
        return found | self._answers(_CONDITION, short, "holds", asked)

    def answer(self, rule: HealthRule, document: Mapping[str, Any]) -> RuleAnswers:
        """What a rule says of an object, whose fields are decoded or not.

        It says nothing where the object is too large, or an expression has exceeded a limit.
        """
        keys = {text: key for key, text in rule.expressions.items()}
        try:
            encoded = msgspec.json.encode(document)
        except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
            encoded = b""
        if not encoded or len(encoded) > MOST_BYTES:
            return RuleAnswers(rule, {})
        answers = self._answers(_RULE, list(keys), "evaluate_rule", keys, encoded)
        if len(answers) < len(keys):
            return RuleAnswers(rule, {})
        return RuleAnswers(rule, {key: answers[text] for key, text in rule.expressions.items()})

    def complaint(self, expression: str, key: Key) -> str:
        """Why an expression of a rule cannot be used, with line and column; "" where it can."""
        found = self._answers(None, [expression], "complaint", key)
        if expression in found:
            return str(found[expression])
        if self._pool is None and time.monotonic() < self._not_before:
            return "it cannot be checked: no process for CEL can be started"
        return "line 1, column 1: it costs too much to compile"

    def _answers(
        self, about: tuple[str, str] | None, expressions: Sequence[str], function: str, *args: Any
    ) -> dict[str, Any]:
        """The answer to each expression, without those that could not be evaluated.

        about  what is remembered and logged of one that costs too much; None: nothing
        """
        found: dict[str, Any] = {}
        with self._lock:
            left = [expression for expression in expressions if expression not in self._costly]
            exceeded = Counter[str]()
            while left and (pool := self._running()) is not None:
                try:
                    asked = [pool.submit(worker.run, function, source, *args) for source in left]
                    for answer in asked:
                        found[left[0]] = answer.result(self._answer_seconds)
                        left.pop(0)
                except _FAILURES:
                    self._end()
                    exceeded[left[0]] += 1
                    if self._is_closed or exceeded[left[0]] == _TRIES:
                        self._give_up(left.pop(0), about)
        return found

    def _give_up(self, expression: str, about: tuple[str, str] | None) -> None:
        if about is None or self._is_closed:
            return
        self._costly[expression] = None
        what, effect = about
        fields = {"expression": expression[:_TOLD], "effect": effect}
        LOGGER.warning(f"{what} costs too much to evaluate", extra={"fields": fields})

    def _running(self) -> ProcessPoolExecutor | None:
        """The worker; None where it cannot be started, which is tried again a minute later."""
        if self._pool is not None or self._is_closed or time.monotonic() < self._not_before:
            return self._pool
        reason = ""
        for _ in range(_TRIES):
            spawn = multiprocessing.get_context("spawn")
            try:
                self._pool = ProcessPoolExecutor(
                    1, spawn, initializer=worker.start, initargs=(self._limits,)
                )
                self.pid = self._pool.submit(os.getpid).result(_START_SECONDS)
            except _FAILURES as error:
                self._end()
                reason = type(error).__name__
            else:
                self.started += 1
                return self._pool
        self._not_before = time.monotonic() + _RETRY_SECONDS
        fields = {"reason": reason, "effect": "every webhook stays possible"}
        LOGGER.warning("matchConditions are not evaluated", extra={"fields": fields})
        return None

    def _kill(self) -> None:
        """End the worker at once, whatever it does."""
        for process in multiprocessing.active_children():
            if process.pid == self.pid:
                process.kill()

    def _end(self) -> None:
        """End the worker, and give back what it took."""
        self._kill()
        if self._pool is not None:
            self._pool.shutdown(wait=self.pid is not None, cancel_futures=True)
        self._pool = self.pid = None


def reviewed_request(request: AdmissionRequest) -> worker.ReviewedRequest | None:
    """What conditions read of a request; None where it is too large or cannot be encoded."""
    objects = (state and state.fields for state in (request.object, request.old_object))
    try:
        parts = [msgspec.json.encode(part) for part in (request.attributes, *objects)]
    except (msgspec.MsgspecError, RecursionError):
        return None
    if sum(map(len, parts)) > MOST_BYTES:
        return None
    return worker.ReviewedRequest(bool(request.wire.namespace), *parts)


class RuleEvaluator:
    """Evaluates objects by the rules of a run; the rules may be replaced. Its calls block."""

    def __init__(self, evaluator: Evaluator, rules: HealthRules) -> None:
        self._evaluator: Final = evaluator
        self.rules = rules

    def __call__(self, document: Mapping[str, Any]) -> RuleAnswers | None:
        """Return what the rule of an object's kind says of it; None without a rule."""
        return self.answer(*group_and_kind(document), document)

    def covers(self, group: str, kind: str) -> bool:
        """Whether a kind has a rule."""
        return self.rules.find(group, kind) is not None

    def answer(self, group: str, kind: str, document: Mapping[str, Any]) -> RuleAnswers | None:
        """Do the same for an object whose fields may not be decoded."""
        rule = self.rules.find(group, kind)
        return None if rule is None else self._evaluator.answer(rule, document)
