"""`genguard replay` on audit logs: files, levels, what is cut off, speed and memory."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.unit.audit.samples import CLEARS, CULPRIT, as_lines, event, statuses
from webhook.cli import main


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
    (missed,) = summary.pop("notExamined")
    assert (missed["reason"], missed["writes"]) == ("stored state not known", 1)
    assert summary == {
        "type": "summary", "unreadable": 0, "findings": 1, "events": 4, "patches": 3,
        "webhooks": {"/".join(CULPRIT): 3}, "failedOpen": {},
    }  # fmt: skip


@pytest.mark.parametrize("cut", [150, 400, 900])
def test_a_last_line_that_is_not_finished_is_no_error(tmp_path, cut):
    path = log(tmp_path / "audit.log", end=as_lines([event(CLEARS)])[0][:cut])
    result = replay(path)
    assert result.exit_code == 0
    assert lines(result)[-1]["truncated"] == 1
    assert lines(result)[-1]["unreadable"] == 0


def test_the_table_names_who_failed_open(tmp_path):
    key = "failed-open.mutation.webhook.admission.k8s.io/round_0_index_2"
    path = tmp_path / "audit.log"
    path.write_bytes(as_lines([event(annotations={key: "away.example.org"})])[0])
    out = CliRunner().invoke(main, ["replay", str(path)]).stdout
    assert out == (
        "1 writes are logged at level Request: what was stored in the end needs level "
        "RequestResponse. Put this first among the rules of the audit policy: - {level: "
        "RequestResponse, verbs: [create, update, patch, delete, deletecollection], resources: "
        "[{group: apps}]}\n"
        "0 unreadable, 1 events, 0 patches, failedOpen: away.example.org 1\n"
    )
