"""An audit log says who created, wrote, scaled and deleted one object."""

import json
from itertools import product
from typing import Any

import pytest

from genguard.audit.event import ObjectReference, read_event
from genguard.blame.audited import AuditBlame, NotInLogError, kind_in_log
from genguard.blame.drawing import table as drawn
from genguard.blame.field_paths import NoSuchFieldError
from genguard.generation.table import load_rows
from tests.cases_loader import table

DAY = "2026-11-23T"
VALUE = "hunter2"


def event(one, resource="deployments"):
    """One event of a log, from the short form of a case."""
    reference = {
        "resource": resource,
        "apiGroup": "" if resource == "pods" else "apps",
        "apiVersion": "v1",
        "namespace": one.get("namespace", "shop"),
        "subresource": one.get("subresource", ""),
        "name": "" if one.get("nameless") else one.get("name", "web"),
    }
    annotations = {}
    for index, (name, patch) in enumerate(one.get("patches", {}).items()):
        configuration, webhook = name.split("/")
        called = {"configuration": configuration, "webhook": webhook, "mutated": True}
        path = f"webhook.admission.k8s.io/round_0_index_{index}"
        annotations[f"mutation.{path}"] = json.dumps(called)
        annotations[f"patch.{path}"] = json.dumps({**called, "patch": patch})
    found = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": one.get("level", "RequestResponse"),
        "stage": "ResponseComplete",
        "verb": one["verb"],
        "requestURI": f"/x{one.get('query', '')}",
        "user": {"username": one["by"]},
        "userAgent": "kubectl/v1",
        "objectRef": reference,
        "responseStatus": {"code": one.get("code", 200)},
        "stageTimestamp": f"{DAY}00:00:{one['at']:02}.000000Z",
        "annotations": annotations,
    }
    if "as" in one:
        found["impersonatedUser"] = {"username": one["as"]}
    for key, name in (("sent", "requestObject"), ("answer", "responseObject")):
        if key in one:
            found[name] = one[key]
    return json.dumps(found).encode()


def blamed(*events: Any, resource="deployments", namespace=""):
    log = AuditBlame(kind_in_log(resource, load_rows()), "web", namespace)
    for one in events:
        log.take(read_event(event(one, resource)))
    return log.find()


def _short(text):
    """The time of the day alone."""
    return text.removeprefix(DAY).removesuffix("Z")


@table(
    "blame/audit.yaml", "events", "resource", "field", "rows", "notes", "exists", "error", "ignore"
)
def test_a_log_names_who_did_what(case):
    try:
        story = blamed(*case["events"], resource=case.get("resource", "deployments"))
        found = story.report(case.get("field", ""))
    except (NotInLogError, NoSuchFieldError) as error:
        assert str(error) == case.get("error"), case.because
        return
    rows = [[_short(cell.text) for cell in row] for row in drawn(found)]
    shown = [row for row in rows if row[0] not in (*case.get("ignore", ()), "FIELD")]
    expected = [[_short(cell) for cell in row] for row in case["rows"]]
    assert shown == expected, case.because
    assert found.exists is case.get("exists", True), case.because
    for note in case.get("notes", ()):
        assert any(one.startswith(note) for one in found.notes), case.because


def test_the_namespace_that_is_given_is_the_one_that_is_read():
    events = [
        {"at": 0, "by": name, "verb": "delete", "namespace": name} for name in ("shop", "other")
    ]
    found = blamed(*events, namespace="other").report()
    assert [one.by.user for one in found.actions] == ["other"]


def test_a_namespace_is_one_object_though_its_creation_names_none():
    events = [
        {"at": 0, "by": "a", "verb": "create", "namespace": "", "answer": web(1)},
        {"at": 1, "by": "b", "verb": "update", "namespace": "web", "answer": web(2)},
    ]
    log = AuditBlame(lambda _: True, "web", "")
    for one in events:
        log.take(read_event(event(one, "namespaces").replace(b'"apps"', b'""')))
    assert log.find().report().actions[0].by.user == "a"


def web(replicas, **metadata):
    return {"metadata": {"name": "web", **metadata}, "spec": {"replicas": replicas}}


PATCHED = [{"op": "replace", "path": "/spec/replicas", "value": 1}]


@table("blame/in_turn.yaml", "writes", "users")
def test_who_changed_a_field_in_turn_is_known(case):
    events = [
        {
            "at": at, "by": by, "verb": "update" if at else "create", "answer": web(replicas),
            "patches": dict.fromkeys(hooks, PATCHED),
        }
        for at, (by, replicas, *hooks) in enumerate(case["writes"])
    ]  # fmt: skip
    (row,) = blamed(*events).report("spec.replicas").fields
    assert [one.user for one in row.in_turn] == case["users"], case.because


@table("blame/kinds.yaml", "asked", "group", "resource", "is_meant")
def test_a_kind_is_found_in_a_log_by_any_of_its_names(case):
    where = ObjectReference(resource=case["resource"], api_group=case["group"], api_version="v1")
    found = kind_in_log(case["asked"], load_rows())(where)
    assert found is case["is_meant"], case.because


ODD = (
    {"metadata": []}, {"metadata": {"name": "web", "finalizers": 3, "deletionTimestamp": "t"}},
    {"spec": []}, {"spec": 1, "metadata": {"name": "web", "managedFields": 4}}, [], [1],
    [{"op": "add"}], [{"op": "x", "path": "/a"}], [{"op": "add", "path": "spec", "value": 1}],
    "text", 4, None, {"metadata": {"name": "web", "managedFields": [{"fieldsV1": {"x": 1}}]}},
    {"items": [1, {"metadata": 3}]},
)  # fmt: skip


@pytest.mark.parametrize("verb", ["create", "update", "patch", "delete", "deletecollection"])
def test_objects_that_no_api_server_logs_break_nothing(verb):
    first = {"at": 0, "by": "a", "verb": "create", "answer": {"metadata": {"name": "web"}}}
    for odd, key, subresource in product(ODD, ("sent", "answer"), ("", "scale", "status")):
        second = {"at": 1, "by": "b", "verb": verb, "subresource": subresource, key: odd}
        for events in ([first, second], [second, first], [second]):
            try:
                drawn(blamed(*events).report())
            except NotInLogError:
                assert events == [second]


def test_no_value_of_a_field_is_in_the_report():
    secret = {"kind": "Secret", "metadata": {"name": "web"}, "data": {"password": VALUE}}
    events = [
        {"at": 0, "by": "a", "verb": "create", "answer": secret},
        {
            "at": 1,
            "by": "b",
            "verb": "patch",
            "sent": [{"op": "add", "path": "/x", "value": VALUE}],
        },
    ]
    found = blamed(*events).report()
    assert VALUE not in str(found)
