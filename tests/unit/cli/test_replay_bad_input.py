"""`genguard replay` and what it cannot read: told, counted, and the rest goes on."""

import json

import pytest

from tests.reviews import make_review
from tests.unit.cli.samples import clobbered, lines, recorded, replay, write_lines

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


def test_a_gzip_file_that_is_damaged_is_told(tmp_path):
    path = write_lines(tmp_path / "a.gz", *[clobbered() for _ in range(20)])
    content = bytearray(path.read_bytes())
    content[40:60] = b"\xff" * 20
    path.write_bytes(bytes(content))
    result = replay(path)
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)


def test_no_name_forges_a_row_or_moves_the_cursor(tmp_path):
    name = "a\nmutate  CREATE\x1b[2J\u2028\x9b"
    rows = replay(write_lines(tmp_path / "a", clobbered(name=name))).stdout
    assert len(rows.splitlines()) == 2
    assert "\x1b" not in rows
    assert r"a\nmutate" in rows
