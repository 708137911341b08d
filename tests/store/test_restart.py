"""A server that is killed and started again on one machine knows what it knew."""

import contextlib
import http.client
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from genguard.replay import Replay
from genguard.review_setup import ReviewOptions
from tests.beside import Again
from tests.e2e.genguard import Genguard
from tests.reviews import make_review
from tests.store.loop import Loop, findings

KILLS = 2


def _save(loop: Loop, server: Genguard, file: Path) -> None:
    """Go on until everything that is known now is in the file.

    Of three saves the first may have begun before, and the third may not be complete.
    """
    for _ in range(3):
        seen = time.time_ns()
        loop.until(server, lambda seen=seen: file.stat().st_mtime_ns > seen, "saved")


@contextlib.contextmanager
def load(server: Genguard) -> Iterator[list[int]]:
    """Clients that write without a pause to a server that may be killed; a number an answer."""
    answered: list[int] = []

    def write(turn: int) -> None:
        review = make_review(new={"status": {"note": "x" * 50_000}}, old={}, name=f"of-{turn}")
        with contextlib.suppress(OSError, http.client.HTTPException):
            server.call("mutate", review)
            answered.append(turn)

    with contextlib.ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(Again(write, 0.0))
        yield answered


def test_killed_again_and_again_under_load_it_keeps_findings_and_no_line_spoils_another(
    tmp_path: Path,
) -> None:
    file, recording = tmp_path / "state.db", tmp_path / "recording"
    known: dict[str, dict[str, Any]] = {}
    flags = (f"--store=sqlite:{file}", f"--record={recording}")
    answered = 0
    for _ in range(KILLS):
        with Genguard(*flags) as server:
            restored = findings(server)
            assert restored.keys() >= known.keys()
            assert all(restored[name]["count"] >= one["count"] for name, one in known.items())
            assert server.log_lines("a damaged file was moved aside") == []
            with load(server) as written:
                loop = Loop()
                enough = lambda many=written: findings(server) and len(many) > 50  # noqa: E731
                loop.until(server, enough, "found")
                known = findings(server)
                news = {line["id"] for line in server.log_lines("finding opened")}
                assert not news & restored.keys(), "known by now, and no news"
                _save(loop, server, file)
                os.kill(server.pid, signal.SIGKILL)
            answered += len(written)
    read = Counter[str]()
    with recording.open("rb") as stream:
        for one in Replay(ReviewOptions()).lines(stream, "recording"):
            read[one["type"]] += 1
    lines = len(recording.read_bytes().splitlines())
    assert read["review"] > answered / 2, "all but those that waited to be written"
    assert lines - read["review"] <= KILLS, "half a line for each kill"
