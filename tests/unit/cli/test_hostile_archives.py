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

from tests.unit.audit.samples import CULPRIT, deployment, event
from tests.unit.cli.samples import clobbered, lines, recorded, replay
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


def reversed_keys(text: str) -> str:
    """The same document, its last key first: not as an API server writes it."""
    return json.dumps(dict(reversed(json.loads(text).items())))


def at(time: str) -> str:
    return json.dumps(event(stageTimestamp=time))


HOSTILE: dict[str, tuple[str | bytes, list[str]]] = {
    "a URI with half an IPv6 address, which urlsplit refuses": (
        json.dumps(event(requestURI="http://[::1?x=/apis")), [],
    ),
    "a key that stands twice: the last counts, as for the API server": (
        GOOD[:-1] + ', "verb": "get", "verb": "update"}', [],
    ),
    "an object that is nested too deep": (holding(DEEP), ["nested too deep"]),
    "the same in a list": (f"{LIST}[{holding(DEEP)}]}}", ["item 1: nested too deep"]),
    "an annotation that is nested too deep": (
        json.dumps(event(annotations={MUTATION: CALL, PATCH: f'{{"patch":{DEEP}}}'})),
        ["Expected `object`, got `array` - at `$.patch[0]`"],
    ),
    "brackets without end": ("[" * 100_000, ["Expected `object`, got `array`"]),
    "objects without end": ('{"a":' * 100_000, ["nested too deep"]),
    "a recording that is nested too deep": (
        json.dumps(recorded("mutate", {"a": "HERE"})).replace('"HERE"', DEEP), ["nested too deep"],
    ),
    "a name that is not UTF-8": (
        GOOD.encode().replace(b'"username": "controller"', b'"username": "\xff"'), ["not UTF-8"],
    ),
    "a kind that is not UTF-8": (b'{"kind": "\xff"}', ["not UTF-8"]),
    "a time that no calendar has in another time zone": (
        at("0001-01-01T00:00:00+23:59"), ["no time between 1970 and 9999 - at `$.stageTimestamp`"],
    ),
    "a time without a zone, which is that of whoever reads it": (
        at("0001-01-01T00:00:00"),
        ["Expected `datetime` with a timezone component - at `$.stageTimestamp`"],
    ),
    "a list in which some items are bad": (
        f'{LIST}[{GOOD}, 5, {{"verb":[]}}, "x,y", {holding(DEEP)}, ,{GOOD}]}}',
        [
            "item 2: Expected `object`, got `int`",
            "item 3: Expected `str`, got `array` - at `$.verb`",
            "item 4: Expected `object`, got `str`",
            "item 5: nested too deep",
            "item 6: Input data was truncated",
        ],
    ),
    "the same with its keys in another order": (
        reversed_keys(f"{LIST}[{GOOD}, 5]}}"), ["item 2: Expected `object`, got `int`"],
    ),
    "a list that is none": (f"{LIST}5}}", ["Expected `array` - at `$.items`"]),
    "a list without items": (f"{LIST[:-9]}}}", ["Expected `array` - at `$.items`"]),
    "a list that ends in the middle": (f"{LIST}[{GOOD}, {GOOD[:23]}", [
        "item 2: JSON is malformed: invalid character (byte 24)",
    ]),
    "a text without end in a list": (
        f'{LIST}[{{"verb', ["item 1: JSON is malformed: invalid character (byte 6)"],
    ),
    "a user whose name is a book": (
        json.dumps(event(user="x" * 5_000)),
        ["Expected `str` of length <= 4096 - at `$.user.username`"],
    ),
    "a patch whose path is a book": (
        json.dumps(event({"patch": [{"op": "remove", "path": "/status/" + "x" * 5_000}]})),
        ["Expected `str` of length <= 4096 - at `$.patch[0].path`"],
    ),
    "a phase that repeats a secret": (
        json.dumps(recorded("canary-7f3a'\nat", clobbered())), ["unknown value - at `$.phase`"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "reasons"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_line_is_left_out_by_name_and_the_others_are_read(tmp_path, text, reasons):
    path, bad = tmp_path / "audit.log", text if isinstance(text, bytes) else text.encode()
    path.write_bytes(b"\n".join((GOOD.encode(), bad, GOOD.encode(), b"")))
    result = replay("-o", "json", path)
    told = [json.loads(line) for line in result.stderr.splitlines()]
    assert [one["message"] for one in told] == reasons
    assert {one["where"] for one in told} <= {f"{path}:2"}
    summary = lines(result)[-1]
    assert (result.exit_code, summary["unreadable"]) == (1 if reasons else 0, len(reasons))
    assert summary["events"] >= 2
    blamed = CliRunner().invoke(main, ["blame", "-f", str(path), "deploy/web"])
    assert isinstance(blamed.exception, SystemExit | None), blamed.exc_info
    assert "canary" not in result.stderr + blamed.stderr


@pytest.mark.parametrize("cut", [-20, 200])
def test_a_gzip_file_that_is_cut_is_left_out_from_there_and_other_files_are_read(tmp_path, cut):
    cut_file, whole = tmp_path / "1.gz", tmp_path / "2.log"
    cut_file.write_bytes(gzip.compress(f"{GOOD}\n".encode() * 50)[:cut])
    whole.write_text(f"{GOOD}\n" * 3)
    result = replay("-o", "json", cut_file, tmp_path / "missing", whole)
    assert result.exit_code == 1
    told = [json.loads(line) for line in result.stderr.splitlines()]
    assert [(one["where"], one["message"]) for one in told] == [
        (str(cut_file), "is no whole gzip file"),
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
