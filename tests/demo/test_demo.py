"""`make demo` tells the whole story, and leaves no process behind, however it ends."""

import os
import pty
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.controlplane.build import binary
from tests.controlplane.client import wait_until
from tests.e2e.genguard import ROOT
from tools.demo.picture import draw

_SECONDS = 200.0


class Demo:
    """A run of the demo in a session of its own."""

    def __init__(self, stdin: int = subprocess.DEVNULL, **variables: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tools.demo"],
            cwd=ROOT,
            env=os.environ | variables,
            stdin=stdin,
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
def demo(stdin: int = subprocess.DEVNULL, **variables: str) -> Iterator[Demo]:
    run = Demo(stdin, **variables)
    try:
        yield run
    finally:
        if run.process.poll() is None:
            run.process.send_signal(signal.SIGINT)
        run.end()


def test_the_rollout_hangs_the_culprit_is_named_and_enforcing_completes_it() -> None:
    with demo() as run:
        assert run.end() == 0, run.said
        before, hangs, enforced = re.split(r"[12]/3  ", run.said)
        assert "about a minute" in before
        assert "`make clean-all` removes that" in before
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


def test_with_only_an_api_server_and_etcd_given_nothing_is_built(tmp_path: Path) -> None:
    """What setup-envtest has: no controllers, and no Go is needed."""
    assets = tmp_path / "assets"
    assets.mkdir()
    for name in ("kube-apiserver", "etcd", "kubectl"):
        (assets / name).symlink_to(binary(name))
    cache = tmp_path / "cache"
    given = {"KUBEBUILDER_ASSETS": str(assets), "XDG_CACHE_HOME": str(cache), "PATH": "/nowhere"}
    with demo(**given) as run:
        assert run.end() == 0, run.said
        assert "plays the Deployment's controller" in run.said
        assert "certain: another webhook cleared" in run.said
        assert run.said.count('deployment "web" successfully rolled out') == 2
        assert "building" not in run.said
    assert not cache.exists()


def test_the_end_of_input_at_a_question_ends_it_in_order() -> None:
    terminal, stdin = pty.openpty()
    with demo(stdin) as run:
        wait_until(lambda: "Look around" in run.said, _SECONDS, what="the first step")
        os.write(terminal, b"\x04")
        assert run.end() == 0, run.said
        assert "Ended; everything is stopped." in run.said
        assert "2/3" not in run.said
        assert "Traceback" not in run.said
        wait_until(lambda: not run.left(), what="nothing left behind")
    os.close(terminal)
    os.close(stdin)
