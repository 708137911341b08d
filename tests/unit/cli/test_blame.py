"""`genguard blame` and `explain finding/ID` on the command line: good input, and any other."""

import asyncio
import gzip
import json
import threading
from contextlib import contextmanager

import msgspec
import pytest
import yaml
from aiohttp import web
from click.testing import CliRunner, Result

from genguard.detection.fix import with_fix
from genguard.detection.sample import PatchedField, ShownField, ShownValue, WriteDiff
from tests.unit.blame.test_audited import event
from tests.unit.detection.test_fix import finding
from tests.waiting import PATIENCE
from webhook.cli import main

STORED = {"kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 1}}
LOG = [
    {"at": 0, "by": "alice", "verb": "create", "answer": STORED},
    {"at": 1, "by": "eve", "verb": "delete", "level": "Metadata"},
]
FIGHT = with_fix(
    finding(
        {
            "detector": "spec-fight",
            "paths": ["/spec/replicas"],
            "actors": ["user argo certain argocd-controller", "user bob certain"],
        }
    )
)


def run(*words: object) -> Result:
    nowhere = {"HOME": "/missing", "KUBECONFIG": ""}
    return CliRunner().invoke(main, [str(word) for word in words], env=nowhere)


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "audit.log"
    path.write_bytes(b"\n".join(map(event, LOG)) + b"\n")
    return path


def test_a_log_is_told_as_a_table(log):
    found = run("blame", "-f", log, "deploy/web", "-n", "shop")
    assert (found.exit_code, found.stderr) == (0, "")
    header, replicas, created, deleted = found.stdout.splitlines()
    assert header.split("  ")[0] == "FIELD"
    assert replicas.split() == [
        "spec.replicas", "alice", "(kubectl)", "2026-11-23T00:00:00Z", "create",
    ]  # fmt: skip
    assert created.startswith("(created)")
    assert deleted.startswith("(deleted)")
    assert "eve" in deleted


def test_a_packed_log_and_standard_input_are_read_as_well(log, tmp_path):
    packed = tmp_path / "audit.log.gz"
    packed.write_bytes(gzip.compress(log.read_bytes()))
    assert "eve" in run("blame", "-f", packed, "deploy/web").stdout
    whole = CliRunner().invoke(main, ["blame", "-f", "-", "deploy/web"], input=log.read_bytes())
    assert "eve" in whole.stdout


def test_the_logs_of_several_api_servers_are_read_side_by_side(tmp_path):
    """Read one after the other, each write would seem to change what the other server wrote."""
    scaled = {**STORED, "spec": {"replicas": 2}}
    events = [
        {"at": 0, "by": "alice", "verb": "create", "answer": STORED},
        {"at": 1, "by": "labeler", "verb": "update", "answer": STORED},
        {"at": 2, "by": "ci", "verb": "update", "answer": scaled},
        {"at": 3, "by": "labeler", "verb": "update", "answer": scaled},
    ]
    files = [tmp_path / name for name in ("one.log", "other.log")]
    for path, some in zip(files, (events[0::2], events[1::2]), strict=True):
        path.write_bytes(b"\n".join(map(event, some)) + b"\n")
    for one, other in (files, reversed(files)):
        done = run("blame", "-f", one, "-f", other, "deploy/web", "spec.replicas", "-o", "json")
        (field,) = json.loads(done.stdout)["fields"]
        assert [each["user"] for each in field["inTurn"]] == ["alice", "ci"]


def test_a_token_without_a_server_is_a_mistake(tmp_path):
    token = tmp_path / "token"
    token.write_text("t")
    done = run("blame", "deploy/web", f"--token-file={token}")
    assert done.exit_code == 2
    assert "--token-file is for --server, which is not given" in done.stderr


def test_the_json_is_one_line(log):
    (line,) = run("blame", "-f", log, "deploy/web", "-o", "json").stdout.splitlines()
    found = json.loads(line)
    assert found["exists"] is False
    assert [one["what"] for one in found["deeds"]] == ["created", "deleted"]


def test_the_yaml_is_the_last_object_that_the_log_has(log):
    text = run("blame", "-f", log, "deploy/web", "spec.replicas", "-o", "yaml").stdout
    assert yaml.safe_load(text) == {"spec": {"replicas": 1}}
    assert "# alice (kubectl)" in text


def test_a_log_without_objects_has_no_yaml_and_says_so(tmp_path):
    path = tmp_path / "audit.log"
    path.write_bytes(event(LOG[1]))
    found = run("blame", "-f", path, "deploy/web", "-o", "yaml")
    assert (found.exit_code, found.stdout) == (0, "")
    assert "no event has the whole object" in found.stderr


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["web"], 2, "'web' is not KIND/NAME"),
        (["a/b/c"], 2, "'a/b/c' is not KIND/NAME"),
        ([], 2, "Missing argument 'KIND/NAME'"),
        (["deploy/web", "spec", "more"], 2, "unexpected extra argument"),
        (["deploy/web", "-o", "wide"], 2, "'wide' is not one of"),
        (["-f", "LOG", "deploy/web", "--server", "http://x"], 2, "-f needs no cluster"),
        (["-f", "LOG", "deploy/web", "--kubeconfig", "x"], 2, "-f needs no cluster"),
        (["-f", "MISSING", "deploy/web"], 1, "No such file or directory"),
        (["-f", "LOG", "deploy/wep"], 1, "did you mean web?"),
        (["-f", "LOG", "deploy/web", "-n", "other"], 1, "in namespace other"),
        (["-f", "LOG", "deploy/web", "spec.replica"], 1, "did you mean spec.replicas?"),
        (["-f", "LOG", "deploy/web", "/"], 1, "there is no field"),
        (["-f", "LOG", "deploy/web", "."], 0, ""),
        (["deploy/web"], 1, "no cluster"),
        (["deploy/web", "--kubeconfig", "MISSING"], 1, "MISSING"),
    ],
)
def test_bad_input_is_told_in_one_line(words, code, message, log, tmp_path):
    paths = {"LOG": str(log), "MISSING": str(tmp_path / "MISSING")}
    found = run("blame", *(paths.get(word, word) for word in words))
    assert found.exit_code == code, found.output
    assert message in found.stderr
    assert len(found.stderr.splitlines()) <= 1
    assert isinstance(found.exception, SystemExit | None)


def test_lines_that_are_no_events_are_reported_and_the_rest_is_read(log):
    log.write_bytes(
        b'{"kind":"Pod"}\nnot json\n\n' + log.read_bytes() + b'{"kind":"Event","apiVersion":"au'
    )
    found = run("blame", "-f", log, "deploy/web")
    assert found.exit_code == 1
    assert "eve" in found.stdout
    assert found.stderr.splitlines() == [
        f"{log}:1: no event of an audit log (audit.k8s.io/v1)",
        (
            f"{log}:2: no event of an audit log that can be read: "
            "JSON is malformed: invalid character (byte 4)"
        ),
    ]


@contextmanager
def serving(answers):
    """An ops port that knows these paths."""
    loop, started, found = asyncio.new_event_loop(), threading.Event(), []

    async def answer(request):
        known = answers.get(request.path)
        status, body = (404, b'{"error": "no"}') if known is None else (200, known)
        return web.Response(status=status, body=body, content_type="application/json")

    async def start():
        application = web.Application()
        application.router.add_get("/{path:.*}", answer)
        runner = web.AppRunner(application)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        found.append((runner, site._server.sockets[0].getsockname()[1]))
        started.set()

    thread = threading.Thread(target=lambda: (loop.run_until_complete(start()), loop.run_forever()))
    thread.start()
    started.wait(PATIENCE)
    runner, port = found[0]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(PATIENCE)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_a_finding_is_explained_with_what_ends_it():
    with serving({"/api/findings/f1": msgspec.json.encode(FIGHT)}) as server:
        page = run("explain", "finding/f1", "--server", server)
        line = run("explain", "finding/f1", "--server", server, "-o", "json")
    assert page.exit_code == 0, page.output
    assert page.stdout.startswith("spec-fight  deployments.apps shop/web\n")
    assert "  1. Let Argo CD ignore the field." in page.stdout
    stanza = page.stdout.partition("field.\n")[2].splitlines()
    code = "\n".join(one[7:] for one in stanza if one.startswith(" " * 7))
    assert yaml.safe_load(code) == yaml.safe_load(FIGHT.fix[0].stanza)
    assert json.loads(line.stdout)["fix"][0]["title"] == "Let Argo CD ignore the field"


def test_a_finding_is_explained_with_what_happened():
    fields = (
        ShownField(
            "spec.replicas",
            "/spec/replicas",
            ShownValue(value=2),
            ShownValue(value=10),
            ShownValue(absent=True),
        ),
        ShownField("spec.note", "/spec/note", *[ShownValue(hidden=one) for one in "AAAB"]),
    )
    patch = (PatchedField("remove", "/spec/replicas"),)
    diff = WriteDiff("2026-11-23T08:01:00Z", "bob", "kubectl", fields, patch, 2)
    found = msgspec.structs.replace(FIGHT, diff=diff)
    with serving({"/api/findings/f1": msgspec.json.encode(found)}) as server:
        page = run("explain", "finding/f1", "--server", server).stdout
        line = run("explain", "finding/f1", "--server", server, "-o", "json").stdout
    assert page.partition("WHAT HAPPENED\n")[2].splitlines()[:7] == [
        "  in the write of bob (kubectl) at 2026-11-23T08:01:00Z",
        "  FIELD          BEFORE   ASKED    LEFT     STORED",
        "  spec.replicas  2        10       absent   ?",
        "  spec.note      value A  value A  value A  value B",
        "  and 2 more",
        "  the other webhooks did:",
        '    {"op":"remove","path":"/spec/replicas"}',
    ]
    assert json.loads(line)["diff"]["fields"][0]["asked"] == {"value": 10}


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["finding/gone", "--server", "SERVER"], 1, "the server has no finding gone"),
        (["finding/bad", "--server", "SERVER"], 1, "no answer from /api/findings/bad"),
        (["finding/f1", "--server", "http://127.0.0.1:9"], 1, "no answer from /api/findings/f1"),
        (["finding/f1", "--server", "http://"], 1, "no URL such as http://127.0.0.1:8080"),
        (["finding/f1", "--server", "127.0.0.1:9"], 2, "is neither a URL such as"),
        (["finding/f1", "--server", "other-namespace"], 1, "no cluster"),
        (["finding/", "--server", "SERVER"], 2, "is not finding/ID"),
        (["finding/../x", "--server", "SERVER"], 2, "is not finding/ID"),
        (["finding/f1", "--kubeconfig", "x"], 1, "--kubeconfig x: no such file"),
        (["finding/f1", "--crds", "README.md"], 2, "leave out what is of kinds"),
        (["finding/f1", "--token-file", "x"], 2, "'--token-file': x: No such file"),
        (["pods", "--server", "SERVER"], 2, "--server is for finding/ID"),
    ],
)
def test_a_finding_that_cannot_be_explained_is_told_in_one_line(words, code, message):
    with serving({"/api/findings/bad": b"[]"}) as server:
        found = run("explain", *(server if word == "SERVER" else word for word in words))
    assert found.exit_code == code, found.output
    assert message in found.stderr
    assert len(found.stderr.splitlines()) == 1
