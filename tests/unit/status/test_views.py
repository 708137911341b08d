"""What kstatus, Argo CD and kubectl say of an object: tests/cases/status."""

from datetime import datetime

import pytest

from genguard.status.assessment import assess as ask_rules
from genguard.status.views.argo import argo, assess
from genguard.status.views.go_values import TypeMismatchError, convert, go_types, unix_seconds
from genguard.status.views.kstatus import compute, kstatus
from genguard.status.views.rollout import rollout
from tests.cases_loader import table

VIEWS = ("object", "at", "kstatus", "argo", "rollout")
AT = datetime.fromisoformat("2026-01-01T01:00:00Z").timestamp()


@table("status/views", *VIEWS)
def test_the_three_tools_say_what_their_sources_say(case):
    at = datetime.fromisoformat(case["at"]).timestamp() if case.get("at") else AT
    found = kstatus(case["object"], at), argo(case["object"]), rollout(case["object"])
    assert found == (case["kstatus"], case["argo"], case["rollout"]), case.because


def test_where_tools_contradict_each_other_one_line_says_what_they_answer():
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a"}}
    for phase in ("Bound", "Pending"):
        assert ask_rules({**claim, "status": {"phase": phase}}, at=AT).disagreement is None
    lost = ask_rules({**claim, "status": {"phase": "Lost"}}, at=AT)
    assert lost.disagreement == "kstatus says InProgress, Argo CD says Degraded"


@table("status/times.yaml", "text", "seconds")
def test_times_are_those_of_rfc_3339(case):
    assert unix_seconds(case["text"]) == case["seconds"], case.because


@table("status/unreadable_views.yaml", "tool", "object", "path")
def test_what_a_tool_cannot_read_is_named(case):
    with pytest.raises(TypeMismatchError) as error:
        if case["tool"] == "kstatus":
            compute(case["object"], AT)
        else:
            assess({"apiVersion": "v1", "kind": "Service", **case["object"]})
    assert str(error.value) == case["path"], case.because


def test_a_converted_object_has_no_key_for_what_is_absent_or_null():
    found = convert(
        {"kind": "Pod", "spec": None, "metadata": {"name": "a", "extra": 1}}, "core/v1.Pod"
    )
    assert found == {"kind": "Pod", "metadata": {"name": "a"}}


def test_every_code_of_a_go_type_can_be_told_from_another_type():
    types = go_types()
    codes = {code for fields in types.values() for code in fields.values()} - {"any"}
    for code in codes:
        wrong = "text" if code == "bool" else True
        with pytest.raises(TypeMismatchError):
            convert({"a": wrong}, "root", {"root": {"a": code}})
