"""Starts servers in one process group and makes sure that the group never outlives its tests."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

KEEP = "GENGUARD_KEEP_CONTROLPLANE"
"""Set it to keep the folder with every log after the test."""
# Reads until every test process that holds the other end is gone, however it went, and then kills
# the whole group. The child leaves the group first so that it lives to remove the folder.
# PR_SET_PDEATHSIG would not do: it fires when the *thread* that started a server ends.
_WARDEN = """
import os, shutil, signal, sys
sys.stdin.buffer.read()
group = os.getpgrp()
if os.fork() == 0:
    os.setpgid(0, 0)
    os.killpg(group, signal.SIGKILL)
    if not sys.argv[2:]:
        shutil.rmtree(sys.argv[1], ignore_errors=True)
"""
_HELD = "held"
"""A named pipe in the folder of shared servers: they run while somebody can write to it."""
_TAIL_LINES = 25
_LESS_COLLECTION = {"GOGC": "400"}
"""Servers of Go collect garbage less often: a sixth of an API server's processor time."""


class ServerFailedError(Exception):
    """A server ended or never became ready; the message has the end of its log."""


class ProcessGroup:
    """The servers of one control plane; `stop` ends all of them, at once and for certain.

    Those that are `shared` end when everybody has left who started or joined them.
    """

    def __init__(self, folder: Path, *, shared: bool = False) -> None:
        self.folder = folder
        self._shared = shared
        read, self._held = _named_pipe(folder / _HELD) if shared else os.pipe()
        self._servers: dict[str, subprocess.Popen[bytes]] = {}
        self._commands: dict[str, tuple[Sequence[str | Path], Mapping[str, str] | None]] = {}
        self._lock = threading.Lock()
        self._warden = subprocess.Popen(
            [
                sys.executable,
                "-I",
                "-S",
                "-c",
                _WARDEN,
                folder,
                *filter(None, [os.environ.get(KEEP)]),
            ],
            stdin=read,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )
        os.close(read)

    def start(
        self, name: str, command: Sequence[str | Path], env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Starts a server; its output goes to NAME.log in the folder, behind what is there."""
        self._commands[name] = (command, env)
        with self.log(name).open("ab") as log, self._lock:
            server = self._servers[name] = subprocess.Popen(
                command,
                cwd=self.folder,
                # Nothing is inherited: a proxy variable would divert the calls to webhooks.
                env={
                    "HOME": str(self.folder),
                    "TMPDIR": str(self.folder),
                    **_LESS_COLLECTION,
                    **(env or {}),
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=self._warden.pid,
            )
        return server

    def kill(self, name: str) -> None:
        """Ends a server as a crash does."""
        self._servers[name].kill()
        self._servers[name].wait()

    def end(self, name: str) -> None:
        """Ends a server for good: it is not missed any more."""
        self.kill(name)
        del self._servers[name], self._commands[name]

    def again(self, name: str) -> None:
        """Starts a server that has ended as it was started before."""
        self.start(name, *self._commands[name])

    def log(self, name: str) -> Path:
        """The log file of a server."""
        return self.folder / f"{name}.log"

    def tail(self, name: str) -> str:
        """The last lines of a server's log, each cut to a readable length."""
        lines = self.log(name).read_text(errors="replace").splitlines()
        return "\n".join(f"  {line[:400]}" for line in lines[-_TAIL_LINES:])

    def check(self) -> None:
        """Raises ServerFailedError when a server has ended by itself."""
        for name, server in self._servers.items():
            if server.poll() is not None:
                raise ServerFailedError(
                    f"{name} exited with {server.returncode}; end of {self.log(name)}:\n"
                    f"{self.tail(name)}"
                )

    def failure(self, name: str, reason: str) -> ServerFailedError:
        """The error to raise about a server that runs but is of no use."""
        return ServerFailedError(f"{name} {reason}; end of {self.log(name)}:\n{self.tail(name)}")

    def pids(self) -> dict[str, int]:
        """The process id of each server."""
        return {name: server.pid for name, server in self._servers.items()}

    def stop(self) -> None:
        """Kills the group. The data are thrown away, so nothing is gained by asking nicely."""
        os.close(self._held)
        processes = (*self._servers.values(), self._warden)
        if self._shared:  # others may need it: the warden ends it
            for process in processes:
                process.returncode = 0  # else Python warns of a process that nobody waited for
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._warden.pid, signal.SIGKILL)
        for process in processes:
            process.wait()


def join(folder: Path) -> int | None:
    """Keep the shared servers of a folder; the end to close when they are not needed any more.

    None where they have ended.
    """
    try:
        return os.open(folder / _HELD, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:  # the pipe is gone, or nobody reads it
        return None


def _named_pipe(path: Path) -> tuple[int, int]:
    os.mkfifo(path)
    read = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # else it waits for a writer
    write = os.open(path, os.O_WRONLY)
    os.set_blocking(read, True)
    return read, write
