"""Runs a verb of genguard as a process of its own, as a person would."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import IO, Any, NamedTuple, Self

from click.testing import CliRunner

from tests.controlplane.client import wait_until
from tests.controlplane.plane import ControlPlane
from tests.e2e.genguard import IMPORTS
from tests.waiting import PATIENCE
from webhook.cli import main


class Verb:
    """`with Verb(plane, "install", "--yes") as run: run.end()`; may be signalled on the way.

    lines  what it has printed by now, results and what it tells people, as it came
    """

    def __init__(
        self,
        plane: ControlPlane,
        verb: str,
        *arguments: str,
        stdin: int = subprocess.DEVNULL,
        at: tuple[str, Callable[[], object]] | None = None,
    ) -> None:
        """`at`: a text, and what is called as soon as a line has it."""
        self._at = at
        command = [sys.executable, "-m", "webhook", verb, f"--kubeconfig={plane.kubeconfig}"]
        self._process = subprocess.Popen(
            [*command, *arguments],
            env={**IMPORTS, "HOME": str(plane.folder)},
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self._out: list[str] = []
        self._err: list[str] = []
        read = ((self._process.stdout, self._out), (self._process.stderr, self._err))
        self._reading = [threading.Thread(target=self._read, args=each) for each in read]
        for each in self._reading:
            each.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.runs:
            self._process.kill()
        self.end()

    def _read(self, stream: IO[str], kept: list[str]) -> None:
        with stream:
            for line in stream:
                if self._at is not None and self._at[0] in line:
                    self._at[1]()
                kept.append(line)
                self.lines.append(line.rstrip())

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    @property
    def code(self) -> int:
        """What it has ended with."""
        return self._process.returncode

    @property
    def out(self) -> str:
        """Its results."""
        return "".join(self._out)

    @property
    def err(self) -> str:
        """What it has said to people."""
        return "".join(self._err)

    def says(self, text: str) -> None:
        """Waits until a line with this text is printed."""

        def said() -> bool:
            found = any(text in line for line in self.lines)
            if not found and not self.runs:
                raise RuntimeError(f"it ended without a word of {text!r}: {self.lines}")
            return found

        wait_until(said, what=text)

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self) -> Self:
        """Waits for the end."""
        self._process.wait(PATIENCE)
        for each in self._reading:
            each.join()
        return self

    def ends(self, code: int) -> None:
        """Waits for this end."""
        assert self.end().code == code, self.lines

    def report(self) -> dict[str, Any]:
        """What it has printed as JSON, once it has ended well."""
        self.ends(0)
        found: dict[str, Any] = json.loads(self.out)
        return found


class Done(NamedTuple):
    """What a run has said: results, and what it tells people."""

    out: str
    err: str


def run(plane: ControlPlane, *arguments: str, code: int = 0) -> Done:
    """One run from beginning to end, in this process: nobody can interrupt it."""
    found = CliRunner().invoke(main, [*arguments, f"--kubeconfig={plane.kubeconfig}"])
    assert found.exit_code == code, (found.exit_code, found.output, found.exception)
    return Done(found.stdout, found.stderr)
