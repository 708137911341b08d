"""`genguard replay`: recordings in, one line for each review out."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.reviews import make_review
from tests.unit.cli.samples import DEFINITION, clobbered, recorded, write_lines
from webhook.cli import main

KEYS = {
    "type", "uid", "phase", "group", "resource", "subresource", "operation", "namespace", "name",
    "predictedGeneration", "step", "cause", "effective", "patch",
}  # fmt: skip


def replay(*arguments: str | Path, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(main, ["replay", *map(str, arguments)], input=stdin)


def lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_each_review_is_one_object_and_a_summary_is_last(tmp_path):
    asked = clobbered()
    result = replay("-o", "json", write_lines(tmp_path / "a", asked, make_review("CREATE", new={})))
    assert result.exit_code == 0
    first, second, summary = lines(result)
    assert first.keys() == second.keys() == KEYS
    assert first == {
        "type": "review", "uid": asked["request"]["uid"], "phase": "mutate", "group": "apps",
        "resource": "deployments", "subresource": "status", "operation": "UPDATE",
        "namespace": "default", "name": "thing", "predictedGeneration": None, "step": 0,
        "cause": "subresource-keeps", "effective": False,
        "patch": [{"op": "add", "path": "/status/observedGeneration", "value": 3}],
    }  # fmt: skip
    assert second["predictedGeneration"] == 1
    assert summary == {"type": "summary", "unreadable": 0, "reviews": 2, "patched": 2}


def test_the_phases_of_a_recording_are_joined(tmp_path):
    sent = make_review(new={"status": {"observedGeneration": 5}}, old={}, subresource="status")
    lost = make_review(new={"status": {}}, old={}, subresource="status")
    path = write_lines(
        tmp_path / "recording", recorded("intent", sent), recorded("mutate", lost, 1),
        recorded("outcome", sent, 2),
    )  # fmt: skip
    *reviews, summary = lines(replay("-o", "json", path))
    intent, mutate, outcome = (one for one in reviews if one["type"] == "review")
    assert [one["phase"] for one in (intent, mutate, outcome)] == ["intent", "mutate", "outcome"]
    assert [one["patch"] for one in (intent, outcome)] == [[], []]
    assert mutate["patch"][0]["value"] == 5
    assert (summary["reviews"], summary["patched"]) == (3, 1)


def test_an_intent_is_forgotten_by_the_recordings_own_clock(tmp_path):
    sent = make_review(new={"status": {"observedGeneration": 5}}, old={}, subresource="status")
    lost = make_review(new={"status": {}}, old={}, subresource="status")
    path = write_lines(tmp_path / "a", recorded("intent", sent), recorded("mutate", lost, 31))
    assert lines(replay("-o", "json", path))[1]["patch"] == []


def test_plain_compressed_and_standard_input_give_the_same(tmp_path):
    rows = [clobbered(), recorded("mutate", clobbered())]
    plain = write_lines(tmp_path / "a.ndjson", *rows)
    content = plain.read_bytes()
    results = [
        replay("-o", "json", plain),
        replay("-o", "json", write_lines(tmp_path / "a.gz", *rows)),
        replay("-o", "json", "-", stdin=content),
        replay("-o", "json", "-", stdin=gzip.compress(content)),
    ]
    assert {result.exit_code for result in results} == {0}
    assert len({result.stdout for result in results}) == 1


def test_several_files_are_one_run(tmp_path):
    paths = [write_lines(tmp_path / name, clobbered()) for name in "ab"]
    assert lines(replay("-o", "json", *paths))[-1]["reviews"] == 2


def test_blank_lines_are_passed_over(tmp_path):
    path = write_lines(tmp_path / "a", clobbered(), end="\n \n")
    assert replay(path).exit_code == 0


BAD = {
    "a truncated last line": (json.dumps(clobbered())[:300], "Input data was truncated"),
    "no JSON": ("secret: canary-7f3a", "malformed"),
    "another document": ('{"kind": "Pod", "spec": "canary-7f3a"}', "missing required field"),
    "a phase nobody knows": (json.dumps(recorded("before", clobbered())), "phase"),
    "a recording without a time": (json.dumps({"phase": "mutate", "review": clobbered()}), "time"),
    "a time without an offset": (
        json.dumps({**recorded("mutate", clobbered()), "time": "2026-01-01T00:00:00"}), "time"
    ),
    "a recording of nothing": (
        '{"time": "2026-01-01T00:00:00Z", "phase": "mutate", "review": null}', "Expected"
    ),
    "nesting without end": ("[" * 100_000, ""),
}  # fmt: skip


@pytest.mark.parametrize(("text", "told"), BAD.values(), ids=BAD)
def test_a_line_that_cannot_be_read_is_told_and_the_rest_goes_on(tmp_path, text, told):
    path = write_lines(tmp_path / "a", clobbered(), end=f"{text}\n{json.dumps(clobbered())}")
    result = replay("-o", "json", path)
    assert result.exit_code == 1
    assert [line["type"] for line in lines(result)] == ["review", "review", "summary"]
    assert lines(result)[-1]["unreadable"] == 1
    error = json.loads(result.stderr)
    assert error["type"] == "error"
    assert error["where"] == f"{path}:2"
    assert "canary" not in result.stderr


def test_a_review_nested_too_deep_is_one_that_was_not_judged(tmp_path):
    text = json.dumps(make_review(new={"spec": "HERE"}, old={})).replace(
        '"HERE"', "[" * 2_000 + "]" * 2_000
    )
    result = replay("-o", "json", write_lines(tmp_path / "a", end=text))
    assert result.exit_code == 0
    assert lines(result)[0]["cause"] == "too-deep"
    assert replay(write_lines(tmp_path / "a", end=text)).exit_code == 0


@pytest.mark.parametrize("cut", [20, 60, -8])
def test_a_gzip_file_that_ends_in_the_middle_is_told(tmp_path, cut):
    path = write_lines(tmp_path / "a.gz", *[clobbered() for _ in range(20)])
    path.write_bytes(path.read_bytes()[:cut])
    result = replay(path)
    assert result.exit_code == 1
    assert f"Error: {path}: is no whole gzip file" in result.stderr


def test_a_gzip_file_that_is_damaged_is_told(tmp_path):
    path = write_lines(tmp_path / "a.gz", *[clobbered() for _ in range(20)])
    content = bytearray(path.read_bytes())
    content[40:60] = b"\xff" * 20
    path.write_bytes(bytes(content))
    result = replay(path)
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)


def test_a_file_that_is_not_there_is_told(tmp_path):
    result = replay(tmp_path / "missing")
    assert result.exit_code == 1
    assert "missing: No such file or directory" in result.stderr


def test_definitions_tell_which_custom_resources_have_a_status_subresource(tmp_path):
    asked = make_review(
        resource="widgets", new={"status": {"a": 1}}, old={"metadata": {"generation": 1}}
    )
    path = write_lines(tmp_path / "a", asked)
    crds = write_lines(tmp_path / "crds.json", DEFINITION)
    assert lines(replay("-o", "json", path))[0]["cause"] == "unknown-status-subresource"
    assert lines(replay("-o", "json", "--crds", crds, path))[0]["predictedGeneration"] == 2


def test_the_server_of_then_judges(tmp_path):
    path = write_lines(tmp_path / "a", make_review("CREATE", "pods", new={}))
    assert lines(replay("-o", "json", "--server-version", "1.32", path))[0]["step"] == 0
    assert lines(replay("-o", "json", "--server-version", "1.33", path))[0]["step"] == 1


def test_the_table_is_one_row_a_review(tmp_path):
    path = write_lines(tmp_path / "a", clobbered(), make_review("CREATE", "pods", new={}))
    first, second, summary = replay(path).stdout.splitlines()
    assert first.split() == [
        "mutate", "UPDATE", "deployments/status", "default/thing", "-", "subresource-keeps",
        "add", "/status/observedGeneration=3",
    ]  # fmt: skip
    assert second.split()[4:6] == ["1", "created"]
    assert summary == "0 unreadable, 2 reviews, 2 patched"


def test_no_name_forges_a_row_or_moves_the_cursor(tmp_path):
    name = "a\nmutate  CREATE\x1b[2J\u2028\x9b"
    rows = replay(write_lines(tmp_path / "a", clobbered(name=name))).stdout
    assert len(rows.splitlines()) == 2
    assert "\x1b" not in rows
    assert r"a\nmutate" in rows


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "Missing argument 'FILE...|-'"),
        (["-o", "yaml", "-"], "'yaml' is not one of 'json', 'table'"),
        (["--server-version", "new", "-"], "'new' is no Kubernetes version; write it as 1.36"),
        (["--crds", "/missing", "-"], "--crds /missing: No such file or directory"),
    ],
)
def test_a_wrong_flag_is_told(arguments, told):
    result = replay(*arguments)
    assert result.exit_code == 2
    assert told in result.stderr
