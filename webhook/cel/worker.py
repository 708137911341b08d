"""The worker process: evaluates expressions until it is ended, or has used up a limit.

`python -m webhook.cel.worker` with a socket as standard input. It answers a message with a byte
for each expression, as soon as it is known: the first expression without a byte was too expensive.
The kernel ends the process at its limits, also within the C++ runtime.
"""

import resource
import signal
import socket
from collections.abc import Iterator
from typing import Final

import msgspec

from webhook.cel.message import (
    ANSWERS,
    LENGTH_BYTES,
    READY,
    CompileRequest,
    Message,
    RuleRequest,
    encode_rule_answer,
)
from webhook.cel.programs import Programs, Variables
from webhook.cel.rule_programs import BadExpressionError, RulePrograms, compile_rule

MOST_CPU_SECONDS: Final = 0.25
"""For one expression. The API server allows so much for all of a webhook's (apiserver
pkg/apis/cel/config.go: RuntimeCELCostBudgetMatchConditions)."""
MOST_MEMORY: Final = 128 * 1024 * 1024
"""Bytes of address space, of which 42 MiB are taken at the start."""


def main() -> None:
    """Answer messages until the other end is closed."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # it would hold whole objects
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # which ends the process
    connection = socket.socket(fileno=0)
    stream, answering = connection.makefile("rb"), _Answering()
    messages = msgspec.json.Decoder(Message)
    connection.sendall(READY)
    while head := stream.read(LENGTH_BYTES):
        asked = messages.decode(stream.read(int.from_bytes(head)))
        answers = answering.answers(asked)
        while True:
            signal.setitimer(signal.ITIMER_PROF, MOST_CPU_SECONDS)
            answer = next(answers, None)
            signal.setitimer(signal.ITIMER_PROF, 0)
            if answer is None:
                break
            connection.sendall(answer)


class _Answering:
    """What has been compiled, for conditions and for rules."""

    def __init__(self) -> None:
        self._conditions: Final = Programs()
        self._rules: Final = RulePrograms()

    def answers(self, asked: Message) -> Iterator[bytes]:
        """Yield the answer to each expression, each evaluated when it is asked for."""
        if isinstance(asked, CompileRequest):
            yield _refusal(asked)
        elif isinstance(asked, RuleRequest):
            document = msgspec.json.decode(asked.object)
            for key, expression in asked.expressions.items():
                yield encode_rule_answer(self._rules.answer(key, expression, document))
        else:
            variables = Variables(asked)
            for expression in asked.expressions:
                yield ANSWERS[self._conditions.holds(expression, variables)]


def _refusal(asked: CompileRequest) -> bytes:
    """The length and text of why an expression cannot be used; an empty text where it can."""
    try:
        compile_rule(asked.expression, asked.key)
    except BadExpressionError as error:
        told = str(error).encode()
        return len(told).to_bytes(LENGTH_BYTES) + told
    return bytes(LENGTH_BYTES)


if __name__ == "__main__":
    main()
