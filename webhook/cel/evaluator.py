"""Evaluates matchConditions and rules in a worker process, with a limit on CPU, memory and time.

An expression that the API server accepts can take seconds and gigabytes over an object that a
tenant made. CEL's C++ runtime counts iterations alone, so a budget of our own would have to know
the cost of each function. A process has limits that hold whatever runs in it.

What exceeds them is remembered by its text and not evaluated again: its webhook stays a
possible cause, and objects of its rule are judged by their conditions. Calls block: on an event
loop they are made in a thread.
"""

import os
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec
from cachetools import LRUCache

from genguard.admission.review import AdmissionRequest
from genguard.objects.selectors import Truth
from genguard.status.health_rules import Answer, HealthRule, HealthRules, Key, NoAnswer, RuleAnswers
from genguard.status.trees import group_and_kind
from genguard.status.view import Health
from webhook.cel.message import (
    READY,
    CompileRequest,
    Message,
    make_line,
    make_message,
    make_rule_message,
)
from webhook.telemetry.logs import LOGGER

if TYPE_CHECKING:
    from webhook.telemetry.metrics import Metrics

LONGEST: Final = 4_096
"""Characters of one expression."""
MOST_REMEMBERED: Final = 1_000
_TOLD: Final = 200
_ANSWER_SECONDS: Final = 5.0
"""Twenty times what the worker's CPU limit allows, for a machine that is busy."""
_START_SECONDS: Final = 30.0
"""A start takes a fifth of a second; a machine that stands still for a while is no reason to do
without rules for a minute."""
_RETRY_SECONDS: Final = 60.0
_TRIES: Final = 2
"""So often a limit is exceeded before an expression counts as costly, and so often a start fails
before there is a pause: a virtual machine that stands still for a moment counts that as processor
time."""
_LONGEST_ANSWER: Final = 64 * 1024
"""Bytes of a line of the worker: a refusal quotes names of the expression."""
_VALUES: Final = msgspec.json.Decoder(bool | int | Health | None)
_CONDITION: Final = ("a matchCondition", "its webhook stays possible")
_RULE: Final = ("an expression of a rule", "its objects are judged by their conditions")
"""What is evaluated, and what follows where it costs too much: for the log."""


class Evaluator:
    """A context manager. It starts its worker when it is first used, and again after it has ended.

    started  how many workers were started
    """

    def __init__(self) -> None:
        self._worker: _Worker | None = None
        self._costly: Final[LRUCache[str, None]] = LRUCache(MOST_REMEMBERED)
        self._lock: Final = Lock()
        self._is_closed = False
        self._not_before = 0.0
        self.started = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_closed = True
        if (worker := self._worker) is not None:
            worker.kill()  # callers that wait for an answer get none
        with self._lock:
            self._end()

    @property
    def costly(self) -> int:
        """How many expressions have exceeded a limit."""
        return len(self._costly)

    @property
    def pid(self) -> int | None:
        """Of the worker, while there is one."""
        worker = self._worker
        return None if worker is None else worker.pid

    def measured(self, metrics: "Metrics") -> None:
        """Export the number of costly expressions."""
        # Imported when wanted: a verb exports nothing, and need not load what does.
        from webhook.telemetry import declarations  # noqa: PLC0415

        metrics.gauge(declarations.COSTLY_CONDITIONS, lambda: float(self.costly))

    def evaluate(
        self, expressions: Iterable[str], request: AdmissionRequest
    ) -> Mapping[str, Truth]:
        """Whether each expression is true of a request.

        Unknown is also an object that is too large, and an expression that is too long or has
        exceeded a limit.
        """
        found = dict.fromkeys(expressions, Truth.UNKNOWN)
        short = [one for one in found if len(one) <= LONGEST]
        answers = self._answers(short, lambda left: make_message(left, request), _CONDITION)
        return found | {one: msgspec.json.decode(line, type=Truth) for one, line in answers.items()}

    def judge(self, rule: HealthRule, document: Mapping[str, Any]) -> RuleAnswers:
        """What a rule says of an object, which is decoded or has fields that are not.

        Nothing where the object is too large, and where an expression has exceeded a limit.
        """
        keys = {text: key for key, text in rule.expressions.items()}
        answers = self._answers(
            list(keys),
            lambda left: make_rule_message({keys[one]: one for one in left}, document),
            _RULE,
        )
        if len(answers) < len(keys):
            return RuleAnswers(rule, {})
        values = {key: _rule_answer(answers[text]) for key, text in rule.expressions.items()}
        return RuleAnswers(rule, values)

    def refusal(self, expression: str, key: Key) -> str:
        """Why an expression of a rule cannot be used, with line and column; "" where it can."""
        with self._lock:
            for _ in range(_TRIES):
                worker = self._running()
                if worker is None:
                    return "it cannot be checked: no process for CEL can be started"
                for line in worker.answers(CompileRequest(key, expression), 1):
                    return msgspec.json.decode(line, type=str)
                self._end()
            return "line 1, column 1: it costs too much to compile"

    def _answers(
        self,
        expressions: Sequence[str],
        make: Callable[[list[str]], Message | None],
        about: tuple[str, str],
    ) -> dict[str, bytes]:
        """The line that answers each expression, without those that could not be evaluated."""
        found: dict[str, bytes] = {}
        with self._lock:
            left = [one for one in expressions if one not in self._costly]
            exceeded = Counter[str]()
            while left:
                asked = make(left)
                worker = None if asked is None else self._running()
                if asked is None or worker is None:
                    break
                answers = list(worker.answers(asked, len(left)))
                found.update(zip(left, answers, strict=False))
                if len(answers) == len(left) or self._is_closed:
                    break
                self._end()
                left = left[len(answers) :]
                exceeded[left[0]] += 1
                if exceeded[left[0]] == _TRIES:
                    self._give_up(left.pop(0), about)
        return found

    def _give_up(self, expression: str, about: tuple[str, str]) -> None:
        self._costly[expression] = None
        what, effect = about
        facts = {"expression": expression[:_TOLD], "effect": effect}
        LOGGER.warning(f"{what} costs too much to evaluate", extra={"facts": facts})

    def _running(self) -> "_Worker | None":
        """A worker; None where it cannot be started, which is tried again a minute later."""
        if self._worker is not None and self._worker.has_ended:
            self._end()
        if self._worker is None and not self._is_closed and time.monotonic() >= self._not_before:
            self._start()
        return self._worker

    def _start(self) -> None:
        reason = ""
        for _ in range(_TRIES):
            try:
                self._worker = _Worker()
                self._worker.wait_until_ready()
            except OSError as error:
                self._end()
                reason = f"{type(error).__name__}: {error}"
            else:
                self.started += 1
                return
        self._not_before = time.monotonic() + _RETRY_SECONDS
        facts = {"reason": reason, "effect": "every webhook stays possible"}
        LOGGER.warning("matchConditions are not evaluated", extra={"facts": facts})

    def _end(self) -> None:
        if self._worker is not None:
            self._worker.end()
        self._worker = None


class _Worker:
    """One process, and the socket to it."""

    def __init__(self) -> None:
        """Raise OSError where no process can be started."""
        self._socket, theirs = socket.socketpair()
        with theirs:
            try:
                # No variable of ours, passwords among them, and no text of it in our log.
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "webhook.cel.worker"],
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=subprocess.DEVNULL,
                    env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                    start_new_session=True,  # ^C is for us alone
                )
            except OSError:
                self._socket.close()
                raise
        self._received = b""
        self.pid: Final = self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended while it had nothing to do."""
        return self._process.poll() is not None

    def wait_until_ready(self) -> None:
        """Wait until it has limited itself. Raises OSError."""
        if self._line(_START_SECONDS) != READY:
            raise ConnectionResetError("it wrote something else than that it is ready")

    def answers(self, asked: Message, count: int) -> Iterator[bytes]:
        """The answer to each expression as it comes; fewer where a limit was exceeded."""
        try:
            self._socket.settimeout(_ANSWER_SECONDS)
            self._socket.sendall(make_line(asked))
            for _ in range(count):
                yield self._line(_ANSWER_SECONDS)
        except OSError:
            return

    def _line(self, seconds: float) -> bytes:
        """The next line, if all of it comes in so many seconds. Raises OSError."""
        ends = time.monotonic() + seconds
        while b"\n" not in self._received:
            self._socket.settimeout(max(0.0, ends - time.monotonic()))
            more = self._socket.recv(_LONGEST_ANSWER)
            if not more or len(self._received) > _LONGEST_ANSWER:
                raise ConnectionResetError("the worker has ended, or writes no lines")
            self._received += more
        line, _, self._received = self._received.partition(b"\n")
        return line

    def kill(self) -> None:
        """End it at once, whatever it does."""
        self._process.kill()

    def end(self) -> None:
        """Kill it, and give back what it took."""
        self._process.kill()
        self._process.wait()
        self._socket.close()


def _rule_answer(line: bytes) -> Answer:
    """The value of an expression of a rule."""
    found = _VALUES.decode(line)
    return NoAnswer.ERROR if found is None else found


class RuleJudge:
    """Judges objects by the rules of a run; the rules may be replaced. Its calls block."""

    def __init__(self, evaluator: Evaluator, rules: HealthRules) -> None:
        self._evaluator: Final = evaluator
        self.rules = rules

    def __call__(self, document: Mapping[str, Any]) -> RuleAnswers | None:
        """Return what the rule of an object's kind says of it; None without a rule."""
        return self.judge(*group_and_kind(document), document)

    def covers(self, group: str, kind: str) -> bool:
        """Whether a kind has a rule."""
        return self.rules.find(group, kind) is not None

    def judge(self, group: str, kind: str, document: Mapping[str, Any]) -> RuleAnswers | None:
        """Do the same for an object whose fields may not be decoded."""
        rule = self.rules.find(group, kind)
        return None if rule is None else self._evaluator.judge(rule, document)
