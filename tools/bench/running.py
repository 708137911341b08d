"""One server process on loopback, from start to end."""

import json
import os
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.request import urlopen

from tools.bench.processes import own_core
from tools.bench.servers import Listen, Server

REPOSITORY: Final = Path(__file__).parents[2]
_START_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.005
_ANSWER_SECONDS: Final = 10.0
_TAIL: Final = 2_000


class ServerFailedError(Exception):
    """A server did not start; the message has the end of what it said."""


@dataclass(frozen=True, slots=True)
class Running:
    """A server that accepts connections.

    start_seconds  from exec to the first TLS handshake that it completed
    log            what it has said, on standard output and standard error
    """

    server: Server
    port: int
    pid: int
    start_seconds: float
    log: Path

    def ops(self, path: str) -> str:
        """What a genguard answers on its ops port, which it has logged."""
        lines = self.log.read_text().splitlines()
        (ops,) = (json.loads(line)["ops"] for line in lines if '"message": "serving"' in line)
        with urlopen(f"{ops}{path}", timeout=_ANSWER_SECONDS) as answer:
            return str(answer.read().decode())


def free_port() -> int:
    """A loopback port that nobody has now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def client_context(folder: Path) -> ssl.SSLContext:
    """Trusts the authority of the folder alone."""
    return ssl.create_default_context(cafile=str(folder / "ca.crt"))


@contextmanager
def running(server: Server, folder: Path) -> Iterator[Running]:
    """Start a server on a core of its own, wait until it accepts TLS, kill it at the end.

    Raises ServerFailedError.
    """
    port = free_port()
    log = folder / f"{server.name}.log"
    with log.open("wb") as said, _on_cores(own_core(server=True), everywhere=server.uses_cores):
        begun = time.perf_counter()
        process = subprocess.Popen(
            server.command(Listen(port, folder)),
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
        )
    try:
        _wait(process, port, client_context(folder), log)
        yield Running(server, port, process.pid, time.perf_counter() - begun, log)
    finally:
        process.kill()
        process.wait()


@contextmanager
def _on_cores(cores: set[int], *, everywhere: bool) -> Iterator[None]:
    """What is started here inherits the cores, with every thread that it will ever have."""
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, own if everywhere else cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, own)


def _wait(process: subprocess.Popen[bytes], port: int, context: ssl.SSLContext, log: Path) -> None:
    end = time.monotonic() + _START_SECONDS
    while not _accepts(port, context):
        ended = process.poll() is not None
        if ended or time.monotonic() > end:
            how = f"exited with {process.returncode}" if ended else "does not accept connections"
            tail = log.read_bytes()[-_TAIL:].decode(errors="replace")
            raise ServerFailedError(f"{log.stem} {how}:\n{tail}")
        time.sleep(_LOOK_SECONDS)


def _accepts(port: int, context: ssl.SSLContext) -> bool:
    try:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=1.0) as plain,
            context.wrap_socket(plain, server_hostname="localhost"),
        ):
            return True
    except (ConnectionError, TimeoutError):
        return False
