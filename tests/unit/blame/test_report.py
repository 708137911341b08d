"""Each field of an object names its last writer, and who changed the value on its way."""

import json
from datetime import datetime

import msgspec
import pytest
import yaml

from genguard.blame.drawing import HIDDEN, annotated
from genguard.blame.drawing import table as drawn
from genguard.blame.field_paths import NoSuchFieldError
from genguard.blame.managed import UnreadableFieldsError
from genguard.blame.report import Seen, blame_live
from genguard.detection.finding import FoundObject
from genguard.objects.shown import json_line
from tests.cases_loader import table

WEB = FoundObject("apps", "v1", "deployments", "shop", "web", "u")
VALUE = "hunter2"
FINDING = {
    "type": "finding", "severity": "warning", "subresource": "", "actors": [], "paths": [],
    "count": 1, "firstSeen": "", "lastSeen": "", "message": "", "evidence": [],
}  # fmt: skip


def answers(case):
    """What a server would answer, in the form of its JSON."""
    writes = [
        {
            "user": "", "fieldManager": "", "subresource": "", "stored": "yes", "changed": [],
            "others": None, **one, "time": datetime.fromisoformat(one["time"]).timestamp(),
        }
        for one in case.get("writes", ())
    ]  # fmt: skip
    findings = [{**FINDING, **one} for one in case.get("findings", ())]
    return msgspec.convert({"writes": writes, "findings": findings}, Seen)


def check(case, known, called=None):
    try:
        found = blame_live(WEB, case["object"], known, case.get("field", ""), called)
    except (NoSuchFieldError, UnreadableFieldsError) as error:
        assert str(error) == case.get("error"), case.because
        return
    rows = [[cell.text for cell in row] for row in drawn(found)]
    assert rows[1:] == case["rows"], case.because
    for note in case.get("notes", ()):
        assert any(one.startswith(note) for one in found.notes), case.because


@table("blame/managed_fields.yaml", "object", "field", "called", "rows", "notes", "error")
def test_managed_fields_name_the_managers_of_each_field(case):
    check(case, None, case.get("called"))


@table("blame/server.yaml", "object", "field", "writes", "findings", "webhooks", "rows", "notes")
def test_a_server_adds_users_exact_times_and_webhooks(case):
    check(case, answers(case), dict.fromkeys(("", "status"), case.get("webhooks", ())))


@table("blame/managed_fields.yaml", "object", "field", "called", "rows", "notes", "error")
def test_annotated_yaml_is_still_the_object(case):
    document = case["object"]
    if "error" in case.values:
        return
    found = blame_live(WEB, document, None)
    text = "\n".join(annotated(found, document))
    document["metadata"].pop("managedFields", None)
    assert yaml.safe_load(text) == json.loads(json.dumps(document)), case.because


@pytest.mark.parametrize("output", ["json", "table"])
def test_no_value_of_a_field_is_printed_unless_yaml_is_asked_for(output):
    document = {"metadata": {"labels": {"a": VALUE}}, "spec": {"list": [VALUE], "key": VALUE}}
    found = blame_live(WEB, document, None)
    text = json_line(found) if output == "json" else str(drawn(found))
    assert VALUE not in text


def test_a_secret_shows_no_contents_even_as_yaml():
    applied = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps({"data": VALUE})}
    document = {
        "kind": "Secret",
        "metadata": {"name": "s", "annotations": {**applied, "note": "kept"}},
        "data": {"password": VALUE},
        "stringData": {"other": VALUE},
    }
    text = "\n".join(annotated(blame_live(WEB, document, None), document))
    assert VALUE not in text
    assert "note: kept" in text
    assert text.count(HIDDEN) == 3


def test_only_the_part_that_was_asked_for_is_shown_as_yaml():
    document = {"metadata": {"name": "a"}, "spec": {"list": [{"name": "x", "n": 1}, {"name": "y"}]}}
    found = blame_live(WEB, document, None, "spec.list[x]")
    text = "\n".join(annotated(found, document, "spec.list[x]"))
    assert yaml.safe_load(text) == {"spec": {"list": [{"name": "x", "n": 1}]}}


@pytest.mark.parametrize(
    "value",
    ["a\nb\n", "a\nb", "a\n\nb\n", " lead\nb", "a \nb", "a\n\n", "\n", "tab\tx", "\x1b[2J", "on",
     "1.0", "- x", "# no", "", "é\nü\n", "null", [], {}, None, True, 3, 1.5, ["a\nb\n", [1, [2]]],
     "x: y", "'", '"', "a" * 200, "=", "2026-01-01"],
)  # fmt: skip
def test_every_value_is_read_back_from_the_annotated_yaml(value):
    document = {"spec": {"value": value, "items": [{"name": "a", "v": value}, {"name": "b"}]}}
    text = "\n".join((*annotated(blame_live(WEB, document, None), document), ""))
    assert yaml.safe_load(text) == document
    assert all(line.isprintable() for line in text.splitlines())


def test_the_json_has_the_documented_shape():
    document = {
        "metadata": {"managedFields": [{"manager": "m", "operation": "Apply", "fieldsV1":
            {"f:spec": {"f:a": {}}}}]},
        "spec": {"a": 1, "b": 2},
    }  # fmt: skip
    found = json.loads(json_line(blame_live(WEB, document, None)))
    assert found["object"]["resource"] == "deployments"
    assert found["exists"] is True
    assert found["fields"] == [
        {"field": "spec.a", "pointer": "/spec/a", "writer": {"manager": "m", "through": "Apply"}},
        {"field": "spec.b", "pointer": "/spec/b", "writer": None},
    ]
