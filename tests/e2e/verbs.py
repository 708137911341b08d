"""Runs a verb of genguard as a process of its own, as a person would."""

import os
import queue
import signal
import subprocess
import sys
import threading
from types import TracebackType
from typing import NamedTuple, Self

from click.testing import CliRunner

from tests.controlplane.plane import ControlPlane
from tests.e2e.genguard import ROOT
from tests.waiting import PATIENCE
from webhook.cli import main


class Verb:
    """`with Verb(plane, "install", "--yes") as run: run.end()`; may be signalled on the way."""

    def __init__(self, plane: ControlPlane, *arguments: str) -> None:
        verb, *rest = arguments
        command = [sys.executable, "-m", "webhook", verb, f"--kubeconfig={plane.kubeconfig}"]
        path = os.pathsep.join((str(ROOT), *filter(None, sys.path)))
        self.process = subprocess.Popen(
            [*command, *rest],
            env={"PYTHONPATH": path, "HOME": str(plane.folder)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._told: list[str] = []
        self._thread = threading.Thread(target=self._read)
        self._thread.start()
        self.code = 0
        self.out = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.end()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._told.append(line)
            self._lines.put(line)

    @property
    def err(self) -> str:
        """What it has said to people."""
        return "".join(self._told)

    def until(self, text: str) -> None:
        """Waits until it says so."""
        while text not in self._lines.get(timeout=PATIENCE):
            pass

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> Self:
        """Waits for the end."""
        if self.process.stdout is not None and not self.process.stdout.closed:
            self.out = self.process.stdout.read()
            self.process.stdout.close()
            self.code = self.process.wait(PATIENCE)
            self._thread.join()
            assert self.process.stderr is not None
            self.process.stderr.close()
        return self


class Done(NamedTuple):
    """What a run has said: results, and what it tells people."""

    out: str
    err: str


def run(plane: ControlPlane, *arguments: str, code: int = 0) -> Done:
    """One run from beginning to end, in this process: nobody can interrupt it."""
    found = CliRunner().invoke(main, [*arguments, f"--kubeconfig={plane.kubeconfig}"])
    assert found.exit_code == code, (found.exit_code, found.output, found.exception)
    return Done(found.stdout, found.stderr)
