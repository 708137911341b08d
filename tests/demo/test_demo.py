"""`make demo` tells the whole story, and leaves no process behind, however it ends."""

import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.controlplane.client import wait_until
from tests.demo.picture import draw
from tests.e2e.genguard import ROOT

_SECONDS = 200.0


class Demo:
    """A run of the demo in a session of its own."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.demo"],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.lines: list[str] = []
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stream:
            self.lines.extend(iter(stream.readline, ""))

    @property
    def said(self) -> str:
        return "".join(self.lines)

    def end(self) -> int:
        """Waits for the end."""
        code = self.process.wait(_SECONDS)
        self._reading.join()
        return code

    def left(self) -> list[str]:
        """The processes of its session that are still there."""
        found = []
        for one in Path("/proc").glob("[0-9]*"):
            try:
                name, _, rest = (one / "stat").read_text().rpartition(")")
            except OSError:
                continue  # it ended meanwhile
            state, _, _, session, *_ = rest.split()
            if int(session) == self.process.pid and state != "Z":
                found.append(name)
        return found


@contextmanager
def demo() -> Iterator[Demo]:
    run = Demo()
    try:
        yield run
    finally:
        if run.process.poll() is None:
            run.process.send_signal(signal.SIGINT)
        run.end()


def test_the_rollout_hangs_the_culprit_is_named_and_enforcing_completes_it() -> None:
    with demo() as run:
        assert run.end() == 0, run.said
        hangs, enforced = run.said.split("2/3  ")
        assert "error: timed out waiting for the condition" in hangs
        assert "observed-generation-cleared  shop/web  mmm-old-operator/" in hangs
        assert "certain: another webhook cleared" in hangs
        assert "successfully rolled out" not in hangs
        assert enforced.count('deployment "web" successfully rolled out') == 2
        assert "timed out" not in enforced
        wait_until(lambda: not run.left(), what="nothing left behind")
    drawn = draw(run.said)
    assert drawn.startswith("<svg")
    assert len(set(re.findall(r'<rect fill="(#[0-9a-f]{6})"', drawn))) == 2, "one line stands out"
    assert "url(" not in drawn.replace("url(#", ""), "nothing is fetched to show it"


def test_interrupted_it_stops_everything() -> None:
    with demo() as run:
        wait_until(lambda: "The dashboard" in run.said, _SECONDS, what="the first step")
        assert len(run.left()) > 5
        run.process.send_signal(signal.SIGINT)
        assert run.end() == 130, run.said
        wait_until(lambda: not run.left(), what="nothing left behind")
