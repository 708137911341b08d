"""The servers that are compared, each started in a process of its own.

Another one, in any language, is a row in SERVERS: a command that listens with TLS on a loopback
port with the certificate of a folder, and what its answers must be.
"""

import importlib.util
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from tests.controlplane.build import binary
from tests.event_loops import environment

CONSTANT_UID: Final = "00000000-0000-0000-0000-000000000000"
CONSTANT_ANSWER: Final[dict[str, Any]] = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "response": {"uid": CONSTANT_UID, "allowed": True},
}
"""What the floor and the application answer, whatever they were asked."""


class Answers(StrEnum):
    """What is expected of a server."""

    CONSTANT = "constant"  # the same bytes always, with the uid of no request
    ALLOWED = "allowed"  # the request's uid, without a patch
    COUNTED = "examined"  # generation and observedGeneration as the two rules want them


@dataclass(frozen=True, slots=True)
class Listen:
    """Where a server listens: the folder has tls.crt, tls.key and ca.crt."""

    port: int
    folder: Path


@dataclass(frozen=True, slots=True)
class Server:
    """How to start one server, and what it is compared as.

    needs       a Python module that must be there; without it the server is left out
    uses_cores  whether it may run on every core, or on the one that the load leaves alone: what
                runs on one core at a time anyway is measured more evenly there
    by_phase    whether it has a path for each phase
    puts_aside  seconds that it may wait for more of a write before it finishes its work on it
    """

    name: str
    about: str
    command: Callable[[Listen], Sequence[str]]
    answers: Answers
    path: str = "/mutate"
    needs: str = ""
    uses_cores: bool = False
    by_phase: bool = False
    puts_aside: float = 0.0

    @property
    def is_available(self) -> bool:
        """Whether what it needs is installed."""
        return not self.needs or importlib.util.find_spec(self.needs) is not None


def _constant(form: str) -> Callable[[Listen], Sequence[str]]:
    program = (sys.executable, "-m", "tools.bench.constant")
    return lambda listen: (*program, str(listen.port), str(listen.folder), form)


def _genguard(loop: str, *flags: str) -> Callable[[Listen], Sequence[str]]:
    variables = [f"{name}={value}" for name, value in environment(loop).items()]

    def command(listen: Listen) -> Sequence[str]:
        at = (f"--secure-port={listen.port}", f"--cert-dir={listen.folder}", "--ops-port=0")
        return ("env", *variables, sys.executable, "-m", "webhook", "serve", *flags, *at)

    return command


def _go(listen: Listen) -> Sequence[str]:
    return (str(binary("gowebhook")), str(listen.port), str(listen.folder))


EVERYTHING_ON: Final = ("--generation-patch=always",)
"""Enforcing, with every rule; metrics and logs cannot be turned off."""

FLOOR: Final = "floor"
"""What the others are measured against."""
QUIET_APPLICATION: Final = Server(
    "aiohttp, no access log",
    "the same without its access log",
    _constant("application-without-log"),
    Answers.CONSTANT,
)
"""What lives are measured against; it is in no other table."""
APPLICATION: Final = "aiohttp"
"""What genguard is measured against: a webhook in Python that does nothing."""
GENGUARD: Final = "genguard"
GO: Final = "go"
"""What it is measured against as well: what one would write instead."""

AUDITING: Final = Server(
    "genguard, audit-only",
    "genguard serve --audit-only, on uvloop",
    _genguard("uvloop", "--audit-only"),
    Answers.ALLOWED,
)
"""What `genguard install --audit-only` starts; it is measured through an API server alone."""

# Longer than SECONDS_WITHOUT_OUTCOMES of genguard/detection/correlate.py. Every server imports this
# module: what it imports would be part of the floor.
_PUTS_ASIDE: Final = 2.1

SERVERS: Final = (
    Server(
        FLOOR,
        "aiohttp's low-level server: reads the body, answers a constant",
        _constant("floor"),
        Answers.CONSTANT,
    ),
    Server(
        APPLICATION,
        "an aiohttp application with a route and its access log: reads the body, answers a "
        "constant",
        _constant("application"),
        Answers.CONSTANT,
    ),
    Server(
        GENGUARD,
        f"genguard serve {' '.join(EVERYTHING_ON)}, on uvloop",
        _genguard("uvloop", *EVERYTHING_ON),
        Answers.COUNTED,
        needs="uvloop",
        by_phase=True,
        puts_aside=_PUTS_ASIDE,
    ),
    Server(
        "genguard+asyncio",
        "the same on asyncio, as where uvloop is not installed",
        _genguard("asyncio", *EVERYTHING_ON),
        Answers.COUNTED,
        by_phase=True,
        puts_aside=_PUTS_ASIDE,
    ),
    Server(
        GO,
        "a webhook of controller-runtime in Go with the two rules, on every core",
        _go,
        Answers.COUNTED,
        uses_cores=True,
    ),
)


def servers_named(names: Sequence[str]) -> tuple[Server, ...]:
    """The servers to compare, the floor always among them; all that can run for no names.

    Raises ValueError for a name that does not exist.
    """
    known = {server.name: server for server in SERVERS}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"no server is called {', '.join(unknown)}; there are {', '.join(known)}")
    wanted = {FLOOR, *(names or known)}
    return tuple(one for one in SERVERS if one.name in wanted and one.is_available)
