"""`genguard reproduce`: what it writes, and what it says where it cannot."""

import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.reproduce.making import found_in, red_for
from tests.reproduce.making import writes_of as writes_of_lines
from tests.scenarios import recording
from webhook.cli import main

NAME = "deployment-status-zeroed"
WEBHOOKS = f"--webhooks={recording.webhooks_of(NAME)}"
FILES = {
    "README.md", "crds.json", "loop.json", "reviews.ndjson", "test_reproduce.py",
}  # fmt: skip


def run(*arguments: str | Path, given: bytes | None = None) -> Result:
    return CliRunner().invoke(main, ["reproduce", *map(str, arguments)], input=given)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("recorded") / "reviews.ndjson"
    file.write_bytes(b"\n".join(recording.read_lines(NAME)))
    return file


@pytest.fixture(scope="module")
def finding() -> str:
    writes, _ = writes_of_lines(recording.read_lines(NAME))
    return f"finding/{found_in(NAME, writes).id}"


def test_a_recording_becomes_a_folder_that_red_for_and_green(recorded, finding, tmp_path):
    folder = tmp_path / "new" / "reproduce"
    result = run(finding, "-o", folder, WEBHOOKS, recorded)
    assert result.exit_code == 0, result.output
    assert result.stdout == f"{folder}: 1 kind(s) of write; read {folder}/README.md\n"
    assert {one.name for one in folder.iterdir()} == FILES
    assert red_for(folder)
    assert not red_for(folder, WITHOUT_CULPRIT="1")
    replayed = CliRunner().invoke(main, ["replay", "-o", "json", str(folder / "reviews.ndjson")])
    detectors = [json.loads(one).get("detector") for one in replayed.stdout.splitlines()]
    assert "observed-generation-cleared" in detectors
    assert "a mutating webhook" in (folder / "README.md").read_text()


def test_standard_input_and_gzip_are_read(recorded, finding, tmp_path):
    packed = tmp_path / "reviews.ndjson.gz"
    packed.write_bytes(gzip.compress(recorded.read_bytes()))
    assert run(finding, "-o", tmp_path / "a", WEBHOOKS, packed).exit_code == 0
    given = recorded.read_bytes()
    assert run(finding, "-o", tmp_path / "b", WEBHOOKS, "-", given=given).exit_code == 0


def test_names_are_kept_where_that_is_asked_for(recorded, finding, tmp_path):
    folder = tmp_path / "kept"
    assert run(finding, "-o", folder, "--keep-names", WEBHOOKS, recorded).exit_code == 0
    assert NAME in (folder / "reviews.ndjson").read_text()
    assert red_for(folder)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("deploy/web", "deploy/web is not finding/ID"),
        ("finding/", "finding/ is not finding/ID"),
        ("finding/a b", "finding/a b is not finding/ID"),
    ],
)
def test_what_is_no_finding_is_a_usage_error(recorded, tmp_path, name, said):
    result = run(name, "-o", tmp_path / "a", recorded)
    assert (result.exit_code, said in result.stderr) == (2, True)


def test_an_unknown_finding_lists_those_of_the_recording(recorded, finding, tmp_path):
    result = run("finding/0000", "-o", tmp_path / "a", WEBHOOKS, recorded)
    assert result.exit_code == 1
    assert "the recording has no finding/0000; it has finding/" in result.stderr
    assert finding in result.stderr
    assert not (tmp_path / "a").exists()


def test_lines_that_cannot_be_read_are_left_out_and_counted(recorded, finding, tmp_path):
    damaged = tmp_path / "damaged"
    damaged.write_bytes(b"[" * 50_000 + b"\n" + recorded.read_bytes() + b'\n{"time": "2026')
    result = run(finding, "-o", tmp_path / "a", WEBHOOKS, damaged)
    assert result.exit_code == 0
    assert f"{damaged}: line 1 is no recorded AdmissionReview; 2 left out" in result.stderr


def test_a_folder_with_something_in_it_is_left_alone(recorded, finding, tmp_path):
    (tmp_path / "kept").write_text("kept")
    result = run(finding, "-o", tmp_path, WEBHOOKS, recorded)
    assert (result.exit_code, "not empty" in result.stderr) == (2, True)
    assert [one.name for one in tmp_path.iterdir()] == ["kept"]


def test_an_audit_log_and_an_empty_file_are_no_recordings(finding, tmp_path):
    log, empty = tmp_path / "audit.log", tmp_path / "empty"
    log.write_text('{"kind":"Event","apiVersion":"audit.k8s.io/v1"}\n')
    empty.touch()
    result = run(finding, "-o", tmp_path / "a", log)
    assert result.exit_code == 1
    assert f"{log}: line 1 is no recorded AdmissionReview" in result.stderr
    assert "not audit logs" in result.stderr
    result = run(finding, "-o", tmp_path / "a", empty)
    assert (result.exit_code, f"{empty}: no recorded reviews" in result.stderr) == (1, True)
    result = run(finding, "-o", tmp_path / "a", tmp_path / "none")
    assert (result.exit_code, "No such file" in result.stderr) == (1, True)
