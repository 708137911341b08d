"""`genguard replay` on audit logs: files, levels, what is cut off, speed and memory."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.unit.audit.samples import CLEARS, CULPRIT, as_lines, event, statuses
from tests.unit.cli.samples import clobbered
from webhook.cli import main

REPOSITORY = Path(__file__).parents[3]


def replay(*arguments: str | Path, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(main, ["replay", "-o", "json", *map(str, arguments)], input=stdin)


def lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def log(path: Path, begin: int = 0, count: int = 3, end: bytes = b"") -> Path:
    asked = {"observedGeneration": 1}
    events = statuses(count, CLEARS, asked=asked, kept={}, begin=begin)
    content = b"".join(as_lines(events)) + end
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def test_events_print_nothing_but_findings_and_the_summary(tmp_path):
    result = replay(log(tmp_path / "audit.log"))
    assert result.exit_code == 0
    finding, summary = lines(result)
    assert finding["type"] == "finding"
    assert finding["actors"] == [
        {"type": "webhook", "name": "/".join(CULPRIT), "fieldManager": "", "confidence": "certain"}
    ]
    (missed,) = summary.pop("notJudged")
    assert (missed["reason"], missed["writes"]) == ("stored state not known", 1)
    assert summary == {
        "type": "summary", "unreadable": 0, "findings": 1, "events": 4, "patches": 3,
        "webhooks": {"/".join(CULPRIT): 3}, "failedOpen": {},
    }  # fmt: skip


def test_rotated_and_compressed_files_are_one_log(tmp_path):
    old, new = log(tmp_path / "audit-1.log.gz"), log(tmp_path / "audit.log", begin=4)
    finding, summary = lines(replay(old, new))
    assert (finding["count"], summary["events"]) == (6, 8)


@pytest.mark.parametrize("cut", [150, 400, 900])
def test_a_last_line_that_is_not_finished_is_no_error(tmp_path, cut):
    path = log(tmp_path / "audit.log", end=as_lines([event(CLEARS)])[0][:cut])
    result = replay(path)
    assert result.exit_code == 0
    assert lines(result)[-1]["truncated"] == 1
    assert lines(result)[-1]["unreadable"] == 0


def test_reviews_and_events_may_be_mixed(tmp_path):
    path = log(tmp_path / "all", end=json.dumps(clobbered()).encode() + b"\n")
    result = lines(replay(path))
    assert [one["type"] for one in result] == ["review", "finding", "summary"]
    assert (result[-1]["reviews"], result[-1]["events"]) == (1, 4)


def test_other_events_are_not_audit_events():
    for version in ("v1", "events.k8s.io/v1", "audit.k8s.io/v1beta1"):
        body = json.dumps({"kind": "Event", "apiVersion": version}).encode()
        assert replay("-", stdin=body).exit_code == 1


def test_a_status_that_counts_is_known_by_crds(tmp_path):
    definition = {
        "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.apps"},
        "spec": {
            "group": "apps", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1"}],
        },
    }  # fmt: skip
    crds, path = tmp_path / "crds.json", tmp_path / "audit.log"
    crds.write_text(json.dumps(definition))
    about = {"resource": "widgets", "subresource": "", "asked": {"observedGeneration": 1}}
    made = statuses(3, CLEARS, kept={}, **about)
    path.write_bytes(b"".join(as_lines(made)))
    assert "generation-mismatch" not in {one.get("detector") for one in lines(replay(path))}
    told = {one.get("detector") for one in lines(replay("--crds", crds, path))}
    assert "generation-mismatch" in told


def test_the_table_names_who_failed_open(tmp_path):
    key = "failed-open.mutation.webhook.admission.k8s.io/round_0_index_2"
    path = tmp_path / "audit.log"
    path.write_bytes(as_lines([event(annotations={key: "away.example.org"})])[0])
    out = CliRunner().invoke(main, ["replay", str(path)]).stdout
    assert out == (
        "1 writes of level Request: what was stored is not in the log; set level RequestResponse "
        "for group apps in the audit policy\n"
        "0 unreadable, 1 events, 0 patches, failedOpen: away.example.org 1\n"
    )


def test_a_group_cannot_forge_a_row(tmp_path):
    one = event()
    one["objectRef"]["apiGroup"] = "a\n0 unreadable"
    path = tmp_path / "audit.log"
    path.write_bytes(as_lines([one])[0])
    out = CliRunner().invoke(main, ["replay", str(path)]).stdout
    assert len(out.splitlines()) == 2
