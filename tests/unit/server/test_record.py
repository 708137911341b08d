"""A recording: every review as one line that replay reads back."""

import json
import os
import resource
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from genguard.admission.review import Phase
from genguard.replay import Replay
from genguard.review_setup import ReviewOptions
from tests.controlplane.client import wait_until
from tests.reviews import make_review
from webhook.files.private import NotPrivateError
from webhook.server.recorder import Recorder

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def recorder(path) -> Recorder:
    return Recorder(path, clock=lambda: NOW)


def replayed(path) -> list[dict]:
    with path.open("rb") as stream:
        return list(Replay(ReviewOptions()).lines(stream, "file"))


@pytest.mark.parametrize("indent", [None, 2, "\t"])
@pytest.mark.parametrize("phase", Phase)
def test_a_review_however_it_is_printed_is_one_line_that_replay_reads(tmp_path, indent, phase):
    asked = make_review(new={"spec": {"text": "a\nb\r\n"}}, old={"spec": {}})
    path = tmp_path / "reviews"
    writing = recorder(path)
    for _ in range(3):
        writing.record(phase, json.dumps(asked, indent=indent).replace("\n", "\r\n").encode())
    writing.close()
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    expected = {"time": "2026-01-02T03:04:05Z", "phase": phase.value, "review": asked}
    assert lines == [expected] * 3
    found = replayed(path)
    assert {line["type"] for line in found} == {"review"}
    assert {line["phase"] for line in found} == {phase.value}
    assert found[0]["uid"] == asked["request"]["uid"]


def test_a_recording_is_for_its_owner_alone(tmp_path):
    path = tmp_path / "reviews"
    recorder(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o666, 0o644, 0o640, 0o611])
def test_a_file_that_others_may_read_is_taken_from_them_before_a_line_is_in_it(
    tmp_path, mode, caplog
):
    path = tmp_path / "reviews"
    path.touch()
    path.chmod(mode)
    recorder(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    (line,) = caplog.records
    assert line.fields == {"file": str(path), "before": f"{mode:04o}", "now": "0600"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file of somebody else")
@pytest.mark.parametrize("mode", [0o666, 0o600])
def test_a_file_of_another_user_is_refused_and_left_as_it_is(tmp_path, mode):
    path = tmp_path / "reviews"
    path.touch()
    path.chmod(mode)
    os.chown(path, 65_532, -1)
    before = sum(1 for _ in Path("/proc/self/fd").iterdir())
    with pytest.raises(NotPrivateError, match=f"another user.*mode 0600.*{path}"):
        Recorder(path)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert sum(1 for _ in Path("/proc/self/fd").iterdir()) == before


@pytest.mark.parametrize(
    ("cut", "phases"),
    [
        pytest.param(1, ["mutate", "outcome"] * 2 + ["intent"], id="the line break alone"),
        pytest.param(2, ["mutate"] * 2 + ["intent"], id="a bracket"),
        pytest.param(100, ["mutate"] * 2 + ["intent"], id="more"),
    ],
)
def test_half_a_line_of_a_server_that_was_killed_spoils_no_other_line(tmp_path, cut, phases):
    path = tmp_path / "reviews"
    body = json.dumps(make_review(new={}, old={})).encode()
    for _ in range(2):
        writing = recorder(path)
        writing.record(Phase.MUTATE, body)
        writing.record(Phase.OUTCOME, body)
        writing.close()
        path.write_bytes(path.read_bytes()[:-cut])
    writing = recorder(path)
    writing.record(Phase.INTENT, body)
    writing.close()
    found = replayed(path)
    assert [one["phase"] for one in found if one["type"] == "review"] == phases
    assert len(path.read_bytes().splitlines()) == 5


def test_a_reader_that_stands_still_costs_lines_and_no_time(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    writing = recorder(path)
    body = b"x" * 6 * 1024 * 1024
    for _ in range(14):
        writing.record(Phase.MUTATE, body)
    assert 1 <= writing.dropped <= 5
    os.close(reader)  # the writer's next write fails, and it goes on to the end
    writing.close()
    assert writing.dropped == 14


def test_a_full_disk_costs_lines_and_is_counted():
    writing = Recorder(Path("/dev/full"))
    for _ in range(3):
        writing.record(Phase.MUTATE, b"{}")
    writing.close()
    assert writing.dropped == 3


def test_a_disk_that_fills_up_in_the_middle_of_a_line_leaves_no_half_of_it(tmp_path):
    path = tmp_path / "reviews"
    body = json.dumps(make_review(new={"spec": {"text": "x" * 100_000}}, old={})).encode()
    writing = recorder(path)
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, most))
    try:
        for _ in range(3):
            writing.record(Phase.MUTATE, body)
        wait_until(lambda: writing.dropped == 2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    writing.record(Phase.MUTATE, body)
    writing.close()
    assert [line["type"] for line in replayed(path)] == ["review", "review"]
