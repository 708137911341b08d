"""Runs genguard again and again as processes of their own, without loading it each time.

A process that has loaded every verb forks for each run: the child has real file descriptors, real
signals and Python's real end, as `genguard VERB` has.
"""

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from webhook import cli

ROOT: Final = Path(__file__).parents[2]
_SECONDS: Final = 120.0
_SOON: Final = 0.5
"""Seconds after which a verb that waits is interrupted."""


class Ended(NamedTuple):
    """How a run ended; `code` is 128 + N after signal N, as shells say it."""

    code: int
    out: str
    err: str


class Forking:
    """A process that forks: `with Forking(folder) as run: run("status", "-f", "-")`."""

    def __init__(self, folder: Path) -> None:
        self._folder: Final = folder
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
        environment["PYTHONPATH"] = os.pathsep.join((str(ROOT), *filter(None, sys.path)))
        self._process: Final = subprocess.Popen(
            [sys.executable, "-m", "tests.malformed.forking"],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def __call__(self, *arguments: str, **job: Any) -> Ended:
        """Run genguard; `job` is of `_child`."""
        streams = {name: str(self._folder / name) for name in ("out", "err")}
        wish = json.dumps({"arguments": arguments, **streams, **job})
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(wish + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        out, err = (Path(path).read_text(errors="replace") for path in streams.values())
        return Ended(code, out, err)


def _child(job: dict[str, Any], ready: int) -> None:
    """Become one run.

    stdin   "closed", "held" (nothing ever comes), or the path of a file; without it nothing
    stdout  "closed", "unread" (a pipe whose reader has gone), or a path such as /dev/full
    limit   most bytes that a file may get: 0 is a disk that is full
    obeys   the modes of files hold, for root too
    """
    given = job.get("stdin", os.devnull)
    if given == "closed":
        os.close(0)
    elif given == "held":
        os.dup2(os.pipe()[0], 0)
    else:
        os.dup2(os.open(given, os.O_RDONLY), 0)
    os.dup2(os.open(job["err"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    wanted = job.get("stdout", job["out"])
    Path(job["out"]).write_text("")
    if wanted == "closed":
        os.close(1)
    elif wanted == "unread":
        reader, writer = os.pipe()
        os.close(reader)
        os.dup2(writer, 1)
    else:
        os.dup2(os.open(wanted, os.O_WRONLY | os.O_CREAT), 1)
    # As Python makes them at its start.
    sys.stdin = None if given == "closed" else os.fdopen(0, "r")  # type: ignore[assignment]
    sys.stdout = None if wanted == "closed" else os.fdopen(1, "w")  # type: ignore[assignment]
    sys.stderr = os.fdopen(2, "w", buffering=1)
    if "limit" in job:
        resource.setrlimit(resource.RLIMIT_FSIZE, (job["limit"], job["limit"]))
    if job.get("obeys"):
        _drop_capabilities()
    os.environ.update(job.get("environment", {}))
    os.write(ready, b"+")
    os.close(ready)


_CAPABILITY_VERSION: Final = 0x20080522
"""linux/capability.h: _LINUX_CAPABILITY_VERSION_3, which has two times three sets of 32 bits."""


def _drop_capabilities() -> None:
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    if ctypes.CDLL(None, use_errno=True).capset(header, (ctypes.c_uint32 * 6)()):
        raise OSError(ctypes.get_errno(), "capset")


def _wait_to_interrupt(job: dict[str, Any]) -> None:
    """Wait until a run has begun to wait: by what it says on standard error, else for a moment."""
    end = time.monotonic() + _SECONDS
    if "says" not in job:
        time.sleep(_SOON)
    while job.get("says", "") not in Path(job["err"]).read_text() and time.monotonic() < end:
        time.sleep(0.01)


def _run(job: dict[str, Any]) -> int | None:
    """Fork; the code in the parent, None in the child."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _child(job, writer)
        return None
    os.close(writer)
    os.read(reader, 1)
    os.close(reader)
    if "signal" in job:
        _wait_to_interrupt(job)
        os.kill(pid, job["signal"])
    end = time.monotonic() + _SECONDS
    while (done := os.waitpid(pid, os.WNOHANG))[0] == 0:
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)
    code = os.waitstatus_to_exitcode(done[1])
    return code if code >= 0 else 128 - code


def main() -> None:
    """Take a job a line on standard input, and print the exit code of each."""
    for name in cli.VERBS:
        cli.load(name)
    while line := sys.stdin.readline():
        job = json.loads(line)
        code = _run(job)
        if code is None:
            cli.main(job["arguments"], prog_name="genguard")
        sys.stdout.write(f"{code}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
