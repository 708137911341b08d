"""Evaluates matchConditions in a worker process, with a limit on CPU, memory and time.

An expression that the API server accepts can take seconds and gigabytes over an object that a
tenant made. CEL's C++ runtime counts iterations alone, so a budget of our own would have to know
the cost of each function. A process has limits that hold whatever runs in it.

What exceeds them is remembered by its text and not evaluated again: its webhook stays a
possible cause. Calls block: on an event loop they are made in a thread.
"""

import os
import socket
import subprocess
import sys
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from threading import Lock
from types import TracebackType
from typing import Final, Self

import msgspec

from webhook.admission.review import AdmissionRequest
from webhook.cel.message import ANSWERS, LENGTH_BYTES, READY, EvaluationRequest, make_message
from webhook.objects.selectors import Truth
from webhook.telemetry import declarations
from webhook.telemetry.logs import LOGGER
from webhook.telemetry.metrics import Metrics

LONGEST: Final = 4_096
"""Characters of one expression."""
MOST_REMEMBERED: Final = 1_000
_TOLD: Final = 200
_ANSWER_SECONDS: Final = 5.0
"""Twenty times what the worker's CPU limit allows, for a machine that is busy."""
_START_SECONDS: Final = 10.0
_RETRY_SECONDS: Final = 60.0
_TRUTHS: Final = {answer: truth for truth, answer in ANSWERS.items()}


class Evaluator:
    """A context manager. It starts its worker when it is first used, and again after it has ended.

    started  how many workers were started
    """

    def __init__(self) -> None:
        self._worker: _Worker | None = None
        self._costly: Final[OrderedDict[str, None]] = OrderedDict()
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

    def measured(self, metrics: Metrics) -> None:
        """Export the number of costly expressions."""
        metrics.gauge(declarations.COSTLY_CONDITIONS, lambda: float(self.costly))

    def evaluate(
        self, expressions: Iterable[str], request: AdmissionRequest
    ) -> Mapping[str, Truth]:
        """Whether each expression is true of a request.

        Unknown is also an object that is too large, and an expression that is too long or has
        exceeded a limit.
        """
        found = dict.fromkeys(expressions, Truth.UNKNOWN)
        with self._lock:
            left = [one for one in found if len(one) <= LONGEST and one not in self._costly]
            while left:
                asked = make_message(left, request)
                worker = None if asked is None else self._running()
                if asked is None or worker is None:
                    break
                answers = list(worker.answers(asked))
                found.update(zip(left, answers, strict=False))
                if len(answers) == len(left) or self._is_closed:
                    break
                self._end()
                self._give_up(left[len(answers)])
                left = left[len(answers) + 1 :]
        return found

    def _give_up(self, expression: str) -> None:
        self._costly[expression] = None
        if len(self._costly) > MOST_REMEMBERED:
            self._costly.popitem(last=False)
        facts = {"expression": expression[:_TOLD], "effect": "its webhook stays possible"}
        LOGGER.warning("a matchCondition costs too much to evaluate", extra={"facts": facts})

    def _running(self) -> "_Worker | None":
        """A worker; None where it cannot be started, which is tried again a minute later."""
        if self._worker is not None and self._worker.has_ended:
            self._end()
        if self._worker is None and not self._is_closed and time.monotonic() >= self._not_before:
            try:
                self._worker = _Worker()
                self._worker.wait_until_ready()
                self.started += 1
            except OSError as error:
                self._end()
                self._not_before = time.monotonic() + _RETRY_SECONDS
                facts = {"reason": type(error).__name__, "effect": "every webhook stays possible"}
                LOGGER.warning("matchConditions are not evaluated", extra={"facts": facts})
        return self._worker

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
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                    start_new_session=True,  # ^C is for us alone
                )
            except OSError:
                self._socket.close()
                raise
        self.pid: Final = self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended while it had nothing to do."""
        return self._process.poll() is not None

    def wait_until_ready(self) -> None:
        """Wait until it has limited itself. Raises OSError."""
        self._socket.settimeout(_START_SECONDS)
        if self._socket.recv(len(READY)) != READY:
            raise ConnectionResetError("the worker has ended before it was ready")

    def answers(self, asked: EvaluationRequest) -> Iterator[Truth]:
        """The answer to each expression as it comes; fewer where a limit was exceeded."""
        message = msgspec.json.encode(asked)
        self._socket.settimeout(_ANSWER_SECONDS)
        try:
            self._socket.sendall(len(message).to_bytes(LENGTH_BYTES) + message)
            for _ in asked.expressions:
                answer = self._socket.recv(1)
                if not answer:
                    return
                yield _TRUTHS[answer]
        except OSError:
            return

    def kill(self) -> None:
        """End it at once, whatever it does."""
        self._process.kill()

    def end(self) -> None:
        """Kill it, and give back what it took."""
        self._process.kill()
        self._process.wait()
        self._socket.close()
