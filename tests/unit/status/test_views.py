"""What kstatus, Argo CD and kubectl say of an object: tests/cases/status."""

from datetime import datetime

import msgspec
import pytest

from genguard.objects.quantity import is_quantity
from genguard.status.views.argo import argo, assess
from genguard.status.views.disagreement import Cause, disagreement, load_causes
from genguard.status.views.go_values import TypeMismatchError, convert, go_types, unix_nanoseconds
from genguard.status.views.kstatus import Kstatus, compute, kstatus
from genguard.status.views.rollout import rollout
from tests.cases_loader import load, table

VIEWS = ("object", "at", "kstatus", "argo", "rollout")
AT = datetime.fromisoformat("2026-01-01T01:00:00Z").timestamp()


@table("status/views", *VIEWS)
def test_the_three_tools_say_what_their_sources_say(case):
    at = datetime.fromisoformat(case["at"]).timestamp() if case.get("at") else AT
    found = kstatus(case["object"], at), argo(case["object"]), rollout(case["object"])
    assert found == (case["kstatus"], case["argo"], case["rollout"]), case.because


@table("status/disagreement.yaml", "object", "ready", "settled", "says")
def test_a_disagreement_is_told_in_one_line(case):
    document = case["object"]
    told = disagreement(
        document,
        ready=case.get("ready", True),
        settled=case.get("settled", True),
        kstatus=kstatus(document, AT),
        argo=argo(document),
        rollout=rollout(document),
    )
    if case["says"] is None:
        assert told is None, case.because
    else:
        assert told is not None, case.because
        assert told.startswith(case["says"]), case.because
        assert "\n" not in told


def test_every_contradiction_of_the_cases_has_a_cause():
    """What only lists the words of the tools leaves the question open."""
    for case in load("status/views", *VIEWS):
        document = case["object"]
        words = kstatus(document, AT), argo(document), rollout(document)
        done = words[0] is Kstatus.CURRENT and words[1] in (None, "Healthy")
        told = disagreement(
            document, ready=done, settled=done, kstatus=words[0], argo=words[1], rollout=words[2]
        )
        assert told is None or "; genguard" not in told, case.because


def test_no_cause_is_written_twice():
    causes = load_causes()
    assert len({(cause.tool, cause.kinds, cause.because) for cause in causes}) == len(causes)


@pytest.mark.parametrize(
    "wrong",
    [
        {"tool": "helm"},
        {"when": []},
        {"when": [{}]},
        {"when": [{"unless": {}}]},
        {"when": [{"grater": [0, "status.replicas"]}]},
        {"when": [{"facts": ["lost"]}]},
        {"when": [{"absent": "replicas"}]},
        {"when": [{"less": ["status.replicas"]}]},
        {"because": ""},
        {"kind": ["Pod"]},
    ],
)
def test_a_row_that_cannot_be_meant_is_not_loaded(wrong):
    row = {"tool": "kstatus", "when": [{"has": "Ready"}], "because": "of this"}
    assert msgspec.convert(row, Cause)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(row | wrong, Cause)


@table("status/times.yaml", "text", "nanoseconds")
def test_times_are_read_as_go_reads_them(case):
    assert unix_nanoseconds(case["text"]) == case["nanoseconds"], case.because


@table("equality/quantity_text.yaml", "text", "taken")
def test_quantities_are_taken_as_go_takes_them(case):
    assert is_quantity(case["text"]) is case["taken"], case.because


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({"metadata": {"deletionTimestamp": 1}}, "metadata.deletionTimestamp"),
        ({"metadata": []}, "metadata"),
        ({"metadata": {"generation": 1}, "status": 1}, "status"),
        ({"status": {"conditions": [{}, {"type": 1}]}}, "status.conditions[1].type"),
        (
            {"kind": "Pod", "status": {"phase": "Running", "containerStatuses": [1]}},
            "status.containerStatuses",
        ),
    ],
)
def test_what_kstatus_cannot_read_is_named(document, path):
    with pytest.raises(TypeMismatchError) as error:
        compute(document, AT)
    assert str(error.value) == path


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"metadata": {"labels": {"a": 1}}}, "metadata.labels['a']"),
        ({"spec": {"ports": [{}, {"port": "80"}]}}, "spec.ports[1].port"),
        ({"spec": {"ports": [{"targetPort": 1.5}]}}, "spec.ports[0].targetPort"),
        ({"status": []}, "status"),
    ],
)
def test_what_argo_cd_cannot_convert_is_named(fields, path):
    with pytest.raises(TypeMismatchError) as error:
        assess({"apiVersion": "v1", "kind": "Service", **fields})
    assert str(error.value) == path


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
