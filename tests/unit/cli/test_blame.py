"""`genguard blame` and `explain finding/ID` on the command line: good input, and any other."""

import json

import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result

from genguard.detection.fix import with_fix
from genguard.detection.sample import PatchedField, ShownField, ShownValue, WriteDiff
from tests.unit.blame.test_audited import event
from tests.unit.cli.samples import LOG, STORED, serving, write_log
from tests.unit.detection.test_fix import finding
from webhook.cli import main

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
    return write_log(tmp_path / "audit.log")


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


def test_what_is_annotated_is_the_last_object_that_the_log_has(log):
    text = run("blame", "-f", log, "deploy/web", "spec.replicas", "-o", "annotated").stdout
    assert yaml.safe_load(text) == {"spec": {"replicas": 1}}
    assert "# alice (kubectl)" in text


def test_a_log_without_objects_has_nothing_to_annotate_and_says_so(tmp_path):
    path = tmp_path / "audit.log"
    path.write_bytes(event(LOG[1]))
    found = run("blame", "-f", path, "deploy/web", "-o", "annotated")
    assert (found.exit_code, found.stdout) == (0, "")
    assert "no event has the whole object" in found.stderr


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
