"""The worker process: evaluates expressions until it is ended, or has used up a limit.

`python -m webhook.cel.worker` with a socket as standard input. It answers a message with a byte
for each expression, as soon as it is known: the first expression without a byte was too expensive.
The kernel ends the process at its limits, also within the C++ runtime.
"""

import resource
import signal
import socket
from typing import Final

import msgspec

from webhook.cel.message import ANSWERS, LENGTH_BYTES, READY, EvaluationRequest
from webhook.cel.programs import Programs, Variables

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
    stream, programs = connection.makefile("rb"), Programs()
    messages = msgspec.json.Decoder(EvaluationRequest)
    connection.sendall(READY)
    while head := stream.read(LENGTH_BYTES):
        asked = messages.decode(stream.read(int.from_bytes(head)))
        variables = Variables(asked)
        for expression in asked.expressions:
            signal.setitimer(signal.ITIMER_PROF, MOST_CPU_SECONDS)
            truth = programs.holds(expression, variables)
            signal.setitimer(signal.ITIMER_PROF, 0)
            connection.sendall(ANSWERS[truth])


if __name__ == "__main__":
    main()
