"""The bench's end of the load process: one for the whole run, asked for one job after another."""

import subprocess
import sys
from typing import IO, Self

import msgspec

from tools.bench.load import Job, Measured
from tools.bench.running import REPOSITORY


class LoadFailedError(Exception):
    """A job could not be done; the message says what the server did."""


class _Failure(msgspec.Struct, forbid_unknown_fields=True):
    error: str


class Generator:
    """A context manager around the process."""

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "tools.bench.load"]
        self._process = subprocess.Popen(
            command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def measure(self, job: Job) -> Measured:
        """Do a job and wait for it. Raises LoadFailedError."""
        asked, answered = self._streams()
        asked.write(msgspec.json.encode(job) + b"\n")
        asked.flush()
        line = answered.readline()
        if not line:
            raise LoadFailedError(f"the load process exited with {self._process.wait()}")
        try:
            return msgspec.json.decode(line, type=Measured)
        except msgspec.ValidationError:
            raise LoadFailedError(msgspec.json.decode(line, type=_Failure).error) from None

    def _streams(self) -> tuple[IO[bytes], IO[bytes]]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        return stdin, stdout
