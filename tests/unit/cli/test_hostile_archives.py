"""Audit logs that somebody made to end `replay` and `blame`: left out by name, the rest is read."""

import gzip
import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.cases_loader import Case, table
from tests.reviews import make_review
from tests.unit.audit.samples import CULPRIT, deployment, event
from tests.unit.cli.samples import clobbered, lines, recorded, replay, write_lines
from webhook.cli import main

MIB = 1 << 20
MOST_MEMORY = 600 * MIB
"""Of addresses. The interpreter with its libraries is a third of it, and so are two lines. Each of
the hostile lines took more than 1,000 MiB beside that, or such lines together did."""
GOOD = json.dumps(event(level="RequestResponse", sent={"status": {}}, stored=deployment()))
DEEP = "[" * 2_000 + "]" * 2_000
LIST = '{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":'
MUTATION = "mutation.webhook.admission.k8s.io/round_0_index_0"
PATCH = "patch.webhook.admission.k8s.io/round_0_index_0"
CALL = json.dumps({"configuration": CULPRIT[0], "webhook": CULPRIT[1], "mutated": True})


def holding(value: str) -> str:
    """An event whose request object is this JSON."""
    sent = event(level="RequestResponse", sent="HERE", stored=deployment())
    return json.dumps(sent).replace('"HERE"', value)


PARTS = {
    '"<RAW DEEP>"': DEEP,
    "<OPEN GOOD>": GOOD[:-1],
    "<GOOD>": GOOD,
    "<HOLDING DEEP>": holding(DEEP),
    "<DEEP>": DEEP,
    "<LIST>": LIST,
    "<BRACKETS>": "[" * 100_000,
    "<OBJECTS>": '{"a":' * 100_000,
    "<MUTATION>": MUTATION,
    "<CALL>": json.dumps(CALL)[1:-1],
    "<PATCH>": PATCH,
    "<BOOK>": "x" * 5_000,
}


def line_of(case: Case) -> bytes:
    """The line of a row in hostile_lines.yaml."""
    text = case.get("text", "")
    if "event" in case.values:
        text = json.dumps(event(**case["event"]))
    elif "recorded" in case.values:
        text = json.dumps(recorded(**{"review": clobbered(), **case["recorded"]}))
    elif "holding" in case.values:
        text = holding(case["holding"])
    for name, value in PARTS.items():
        text = text.replace(name, value)
    return text.encode().replace(b"<FF>", b"\xff")


@table("cli/hostile_lines.yaml", "text", "event", "holding", "recorded", "reasons")
def test_a_hostile_line_is_left_out_by_name_and_the_others_are_read(tmp_path, case):
    path, reasons = tmp_path / "audit.log", case["reasons"]
    path.write_bytes(b"\n".join((GOOD.encode(), line_of(case), GOOD.encode(), b"")))
    result = replay("-o", "json", path)
    told = [json.loads(line) for line in result.stderr.splitlines()]
    assert [one["message"] for one in told] == reasons, case.because
    assert {one["where"] for one in told} <= {f"{path}:2"}
    summary = lines(result)[-1]
    assert (result.exit_code, summary["unreadable"]) == (1 if reasons else 0, len(reasons))
    assert summary["events"] >= 2
    blamed = CliRunner().invoke(main, ["blame", "-f", str(path), "deploy/web"])
    assert isinstance(blamed.exception, SystemExit | None), blamed.exc_info
    assert "canary" not in result.stderr + blamed.stderr


def test_a_review_nested_too_deep_is_one_that_was_not_examined(tmp_path):
    text = json.dumps(make_review(new={"spec": "HERE"}, old={})).replace('"HERE"', DEEP)
    result = replay("-o", "json", write_lines(tmp_path / "a", end=text))
    assert result.exit_code == 0
    assert lines(result)[0]["cause"] == "too-deep"
    assert replay(write_lines(tmp_path / "a", end=text)).exit_code == 0


@pytest.mark.parametrize("cut", [-20, 200])
def test_a_gzip_file_that_is_cut_is_left_out_from_there_and_other_files_are_read(tmp_path, cut):
    cut_file, whole = tmp_path / "1.gz", tmp_path / "2.log"
    cut_file.write_bytes(gzip.compress(f"{GOOD}\n".encode() * 50)[:cut])
    whole.write_text(f"{GOOD}\n" * 3)
    result = replay("-o", "json", cut_file, tmp_path / "missing", whole)
    assert result.exit_code == 1
    told = [json.loads(line) for line in result.stderr.splitlines()]
    assert [(one["where"], one["message"]) for one in told] == [
        (str(cut_file), "is no complete gzip file"),
        (str(tmp_path / "missing"), "No such file or directory"),
    ]
    summary = lines(result)[-1]
    assert summary["unreadable"] == 2
    assert summary["events"] >= 3 + (45 if cut < 0 else 0)


def large_lines() -> Iterator[tuple[str, str]]:
    """Lines just below the longest that is read, and the reason for which each is left out."""
    values = "more than 600,000 values"
    yield holding('{"spec":[' + "[]," * (20 * MIB) + "0]}"), values
    yield holding("{" + ",".join(f'"{key}":0' for key in range(4 * MIB)) + "}"), values
    hidden = {MUTATION: CALL, PATCH: '{"patch":[{"op":"add","path":"/a","value":[HERE0]}]}'}
    escaped = r"\u005b\u005d\u002c" * (3 * MIB)
    yield json.dumps(event(annotations=hidden)).replace("HERE", escaped), values
    yield f"{LIST}[" + "{}," * (20 * MIB) + "{}]}", "more than 100,000 events - at `$.items`"
    for letter in "abcd":
        name = letter * (25 * MIB)
        longest = "Expected `str` of length <= 4096 - at"
        yield json.dumps(event(name=name)), f"{longest} `$.objectRef.name`"
        yield json.dumps(event(user=name)), f"{longest} `$.user.username`"
        call = json.dumps({"configuration": name, "webhook": "b", "mutated": True})
        yield json.dumps(event(annotations={MUTATION: call})), f"{longest} `$.configuration`"
    yield "x" * (128 * MIB), "a line longer than 64 MiB"


def counted_lines() -> Iterator[str]:
    """Lines that are read, and of which nothing large may be kept."""
    yield json.dumps(event(query="?" + "a=1&" * (12 * MIB)))
    for letter in "abcd":
        failed = {f"failed-open.{MUTATION}": letter * (25 * MIB)}
        yield json.dumps(event(annotations=failed, userAgent=letter * (25 * MIB)))


@pytest.mark.slow
@pytest.mark.nightly
def test_an_archive_that_unpacks_to_gibibytes_takes_bounded_memory(tmp_path):
    path, reasons, read = tmp_path / "a.gz", [], 0
    with gzip.open(path, "wb", compresslevel=1) as file:
        for line, reason in large_lines():
            file.write(f"{line}\n{GOOD}\n".encode())
            reasons.append(reason)
        for line in counted_lines():
            file.write(f"{line}\n{GOOD}\n".encode())
            read += 1
    done = subprocess.run(
        [sys.executable, "-m", "webhook", "replay", "-o", "json", str(path)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY)),
        env={"PATH": "", "PYTHONMALLOC": "malloc", "MALLOC_ARENA_MAX": "1"},
    )
    told = [json.loads(line)["message"] for line in done.stderr.splitlines()]
    assert len(told) == len(reasons)
    for reason, message in zip(reasons, told, strict=True):
        assert message.startswith(reason)
    summary = json.loads(done.stdout.splitlines()[-1])
    assert summary["unreadable"] == len(reasons)
    assert summary["events"] >= read + len(reasons)
