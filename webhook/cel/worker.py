"""The worker process: evaluates expressions until it is ended, or has used up a limit.

`python -m webhook.cel.worker` reads and writes lines, as webhook/cel/message.py describes. The
first expression without an answer was too expensive: the kernel ends the process at its limits,
also within the C++ runtime.
"""

import resource
import signal
import sys
from collections.abc import Iterator
from typing import Final

import msgspec

from genguard.status.health_rules import NoAnswer
from webhook.cel import rule_programs
from webhook.cel.message import READY, CompileRequest, Message, RuleRequest
from webhook.cel.programs import Variables, holds

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
    messages = msgspec.json.Decoder(Message)
    _write_line(READY)
    for line in sys.stdin.buffer:
        answers = _answers(messages.decode(line))
        while True:
            signal.setitimer(signal.ITIMER_PROF, MOST_CPU_SECONDS)
            answer = next(answers, None)
            signal.setitimer(signal.ITIMER_PROF, 0)
            if answer is None:
                break
            _write_line(answer)


def _answers(asked: Message) -> Iterator[bytes]:
    """Yield the answer to each expression, each evaluated when it is asked for."""
    if isinstance(asked, CompileRequest):
        found = rule_programs.compiled(asked.expression, asked.key)
        yield msgspec.json.encode(found if isinstance(found, str) else "")
    elif isinstance(asked, RuleRequest):
        document = msgspec.json.decode(asked.object)
        for key, expression in asked.expressions.items():
            answer = rule_programs.evaluate_rule(expression, key, document)
            yield msgspec.json.encode(None if isinstance(answer, NoAnswer) else answer)
    else:
        variables = Variables(asked)
        for expression in asked.expressions:
            yield msgspec.json.encode(holds(expression, variables))


def _write_line(answer: bytes) -> None:
    sys.stdout.buffer.write(answer + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
