"""The assertions of genguard.testing: what they let through, and what they say of the rest."""

import contextlib
import json
import threading
from pathlib import Path

import pytest

from genguard.testing import (
    FakeApiServer,
    LoopError,
    NotConvergedError,
    assert_converges,
    assert_no_loop,
    assert_quiet,
)
from tests.differential.samples import definitions
from tests.unit.audit.samples import as_lines, event

WIDGETS = "widgets.example.org"


@pytest.fixture
def server(fake_api_server: FakeApiServer) -> FakeApiServer:
    for definition in definitions()["items"]:
        fake_api_server.define(definition)
    fake_api_server.create(
        {
            "apiVersion": "example.org/v1",
            "kind": "Widget",
            "metadata": {"name": "one"},
            "spec": {"size": 1},
        }
    )
    return fake_api_server


def report(server: FakeApiServer, *, behind: int = 0, ready: str = "True") -> None:
    generation = server.get(WIDGETS, "one")["metadata"]["generation"] - behind
    conditions = [{"type": "Ready", "status": ready, "observedGeneration": generation}]
    status = {"observedGeneration": generation, "conditions": conditions}
    server.patch(WIDGETS, "one", {"status": status}, subresource="status", user="operator")


def test_a_controller_that_reports_each_generation_converges(server):
    assert_converges(server, WIDGETS, "one", step=lambda: report(server))
    assert_converges(server, WIDGETS, step=lambda: report(server))


def test_the_same_write_again_is_no_write(server):
    report(server)
    stored = server.get(WIDGETS, "one")
    report(server)
    assert server.get(WIDGETS, "one") == stored
    assert [write.is_stored for write in server.writes][-2:] == [True, False]


def test_a_controller_that_counts_up_is_named_with_its_writes(server):
    def grow():
        size = server.get(WIDGETS, "one")["spec"]["size"]
        server.patch(WIDGETS, "one", {"spec": {"size": size + 1}}, user="grower")

    with pytest.raises(NotConvergedError) as caught:
        assert_converges(server, WIDGETS, "one", step=grow, rounds=5)
    said = str(caught.value)
    assert "still writes after 5 rounds" in said
    assert f"grower (grower) UPDATE {WIDGETS} default/one: 200, generation 5 → 6" in said


def test_an_old_generation_is_told_with_the_field(server):
    server.patch(WIDGETS, "one", {"spec": {"size": 2}})
    with pytest.raises(NotConvergedError, match=r"status\.observedGeneration 1, want 2"):
        assert_converges(server, WIDGETS, "one", step=lambda: report(server, behind=1))


@pytest.mark.parametrize(("kind", "value"), [("Stalled", "True"), ("Ready", "False")])
def test_a_failure_converges_only_where_the_test_wants_one(server, kind, value):
    status = {"observedGeneration": 1, "conditions": [{"type": kind, "status": value}]}

    def fail():
        server.patch(WIDGETS, "one", {"status": status}, subresource="status")

    with pytest.raises(NotConvergedError, match=rf"conditions\[{kind}\]"):
        assert_converges(server, WIDGETS, "one", step=fail)
    assert_converges(server, WIDGETS, "one", step=fail, ready=False)
    server.patch(WIDGETS, "one", {"spec": {"size": 2}})
    with pytest.raises(NotConvergedError, match=r"observedGeneration 1, want 2$"):
        assert_converges(server, WIDGETS, "one", step=fail, ready=False)


def test_without_a_step_it_waits_until_it_is_quiet(server):
    report(server)
    assert_converges(server, WIDGETS, "one", quiet=0.1, timeout=120)
    server.patch(WIDGETS, "one", {"spec": {"size": 2}})
    with pytest.raises(NotConvergedError, match="want 2"):
        assert_converges(server, WIDGETS, "one", quiet=0.1, timeout=0.5)  # meant: it never does


def fight(server: FakeApiServer) -> None:
    for _ in range(6):
        server.patch(WIDGETS, "one", {"spec": {"size": 3}}, user="scaler")
        server.patch(WIDGETS, "one", {"spec": {"size": 5}}, user="release-bot")


def test_two_writers_that_fight_are_named(server):
    fight(server)
    with pytest.raises(LoopError, match="scaler") as caught:
        assert_no_loop(server)
    (finding,) = caught.value.findings
    assert finding.detector == "spec-fight"
    assert {actor.name for actor in finding.actors} == {"scaler", "release-bot"}
    assert_no_loop(server, ignore=["spec-fight"])


def test_calm_writes_are_no_loop(server):
    for size in range(2, 8):
        server.patch(WIDGETS, "one", {"spec": {"size": size}})
        report(server)
    assert_no_loop(server, at_least="info")


def test_who_is_not_quiet_on_a_fake_server_is_named(server):
    def write() -> None:
        for checks in range(3):
            server.patch(WIDGETS, "one", {"status": {"checks": checks}}, subresource="status")

    write()  # until it converges
    for namespace, found in (("kube-system", False), ("default", True)):
        later = threading.Timer(0.2, write)
        later.start()
        with pytest.raises(LoopError) if found else contextlib.nullcontext() as caught:
            assert_quiet(server, for_=1, namespace=namespace)
        later.join()
    said = f"test (certain): {WIDGETS} default/one /status, 3x: test writes status.checks again"
    assert said in str(caught.value)


def test_a_cluster_that_cannot_be_watched_is_an_error(tmp_path: Path, monkeypatch):
    with pytest.raises(RuntimeError, match="nowhere: no such file"):
        assert_quiet(tmp_path / "nowhere", for_=1)
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(RuntimeError, match="pipx install genguard-webhook"):
        assert_quiet(tmp_path / "nowhere", for_=1)


def test_a_recording_in_a_file_is_examined_like_the_log(server, tmp_path: Path):
    fight(server)
    path = tmp_path / "recording.ndjson"
    path.write_bytes(b"".join(server.recording()))
    with pytest.raises(LoopError, match="release-bot"):
        assert_no_loop(path)
    with pytest.raises(LoopError, match="release-bot"):
        assert_no_loop(server.recording())


def test_a_recording_without_writes_or_with_bad_lines_is_refused(server, tmp_path: Path):
    server.forget_writes()
    with pytest.raises(ValueError, match="nothing was written"):
        assert_no_loop(server)
    path = tmp_path / "bad"
    path.write_text(json.dumps({"kind": "Pod"}))
    with pytest.raises(ValueError, match="bad:1"):
        assert_no_loop(path)


def test_an_audit_log_that_does_not_show_what_is_stored_is_refused(tmp_path: Path):
    path = tmp_path / "audit.log"
    path.write_bytes(b"".join(as_lines([event(level="Request")])))
    with pytest.raises(ValueError, match="first among the rules of the audit policy: "):
        assert_no_loop(path)
