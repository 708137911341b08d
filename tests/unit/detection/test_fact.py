"""What a review leaves behind: small, without contents, and the same on every replica."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.test_changes import VALUES
from tests.property.test_compared import STATUSES
from tests.reviews import judge, make_review
from tests.unit.detection.builders import (
    INTENT,
    MUTATE,
    OUTCOME,
    Judging,
    fact,
    feed,
    reviewed,
    spec,
    status,
    update,
)
from tests.unit.detection.policies import binding, policy
from tests.unit.detection.test_called import only_if
from tests.unit.detection.test_suspects import hook
from webhook.admission.review import Phase
from webhook.detection.detection import Detection
from webhook.detection.evidence import Place
from webhook.detection.fact import VERSION, UnreadableFactError, decode_fact, encode_fact
from webhook.detection.policies import read_policies
from webhook.detection.reduce import Reviewed
from webhook.detection.suspects import Suspects, read_configurations
from webhook.pipeline import review

OBJECTS = st.fixed_dictionaries(
    {"spec": st.dictionaries(st.sampled_from("ab"), VALUES, max_size=2)},
    optional={"status": STATUSES, "data": VALUES},
)
SUBRESOURCES = st.sampled_from(["", "status", "scale"])
RESOURCES = st.sampled_from(["deployments", "pods", "widgets"])


@given(OBJECTS, OBJECTS, st.sampled_from(list(Phase)), SUBRESOURCES, RESOURCES)
@settings(max_examples=200)
def test_a_fact_is_decoded_as_it_was_encoded(old, new, phase, subresource, resource):
    one = fact(phase, update(new, old, subresource=subresource, resource=resource))
    assert decode_fact(encode_fact(one)) == one


@given(OBJECTS, OBJECTS, OBJECTS, SUBRESOURCES, RESOURCES)
@settings(max_examples=200)
def test_replicas_that_see_one_phase_each_judge_as_one_that_sees_all(
    stored, asked, left, subresource, resource
):
    alone, apart = Judging(), Judging()
    for phase, new in ((INTENT, asked), (MUTATE, left), (OUTCOME, left)):
        one = update(new, stored, subresource=subresource, resource=resource)
        feed(alone, phase, one, 100.0)
        apart.see(decode_fact(encode_fact(fact(phase, one))))
    assert apart.writes == alone.writes
    assert apart.findings() == alone.findings()


CONTENT = "d41d8cd98f00"


def test_no_value_of_an_object_no_label_and_no_annotation_is_in_it():
    conditional = hook("aaa", ("*", "*/*"), **only_if("false"))
    documents = [conditional, policy(), binding()]
    suspects = Suspects(read_configurations(documents), read_policies(documents))
    metadata = {
        "uid": "u",
        "resourceVersion": "7",
        "labels": {"team": CONTENT, CONTENT: "x"},
        "annotations": {"note": CONTENT},
    }
    condition = {
        "type": "Ready",
        "status": CONTENT,
        "message": CONTENT,
        "observedGeneration": CONTENT,
    }
    new = {
        "metadata": metadata,
        "spec": {"password": CONTENT, "items": [CONTENT]},
        "status": {"observedGeneration": CONTENT, "conditions": [condition]},
    }
    for subresource in ("", "status"):
        one = make_review("UPDATE", "widgets", new, {"metadata": metadata}, subresource=subresource)
        suspects.changed(Place("example.org", "widgets", subresource))
        for phase in Phase:
            found = Detection(suspects).fact(phase, reviewed(one, phase), 100.0)
            assert found is not None
            assert found.compared.changes
            raw = encode_fact(found)
            assert CONTENT.encode() not in raw
            assert b"aaa/h.example.org" in raw  # it is called, and its condition is not met


@pytest.mark.parametrize(
    ("raw", "because"),
    [
        (b"", "nothing"),
        (b"\xc1", "no msgpack"),
        (msgspec.msgpack.encode([VERSION]), "too short"),
        (msgspec.msgpack.encode({"version": VERSION}), "no array"),
        (b"\x91" * 100_000, "too deep"),
    ],
)
def test_what_is_no_fact_is_refused_in_one_way(raw, because):
    with pytest.raises(UnreadableFactError):
        decode_fact(raw)


@pytest.mark.parametrize(
    ("position", "value", "because"),
    [
        (0, VERSION + 1, "of a newer version"),
        (1, "afterwards", "of a phase that there is not"),
        (2, -1.0, "before 1970"),
        (2, float("nan"), "at no time"),
        (2, 1e12, "so late that no timestamp can be made of it"),
        (4, CONTENT.encode() + b"\xff", "with a name that is no text"),
    ],
)
def test_a_fact_that_is_wrong_in_one_place_is_refused(position, value, because):
    parts = msgspec.msgpack.decode(encode_fact(fact(OUTCOME, update(spec(a=1), spec(a=2)))))
    parts[position] = value
    with pytest.raises(UnreadableFactError) as error:
        decode_fact(msgspec.msgpack.encode(parts))
    assert CONTENT not in str(error.value), because


@pytest.mark.parametrize("dry_run", [True, False])
def test_of_what_is_no_write_there_is_no_fact(dry_run):
    one = update(spec(a=1), spec(a=2), base="7", sent="7" if dry_run else "6", dry_run=dry_run)
    assert Detection().fact(MUTATE, reviewed(one, MUTATE), 100.0) is None


def test_of_a_deletion_there_is_no_fact():
    one = make_review("DELETE", "deployments", None, spec(a=1))
    assert Detection().fact(OUTCOME, reviewed(one, OUTCOME), 100.0) is None


def test_what_cannot_be_decoded_is_counted_when_somebody_asks_for_it():
    detection, one = Detection(), update(status(a=1), status(a=2), subresource="status")
    body = json.dumps(one).replace('"a": 1}', '"a": 1e999}').encode()
    verdict = review(body, MUTATE, judge(audit_only=True), 0.0).verdict
    assert verdict.request is not None
    assert verdict.prediction is not None
    read = Reviewed(verdict.request, verdict.prediction, verdict.status)
    found = detection.fact(MUTATE, read, 100.0)
    assert found is not None
    assert found.compared.changes
    assert list(found.compared.changes) == []
    assert detection.unreadable == 1


def test_a_phase_that_shows_the_same_as_one_before_shares_its_comparison():
    detection, one = Detection(), update(status(a=1), status(a=2), subresource="status")
    intent = detection.fact(INTENT, reviewed(one, INTENT), 100.0)
    assert intent is not None
    detection.see(intent)
    mutate = detection.fact(MUTATE, reviewed(one, MUTATE), 100.0)
    assert mutate is not None
    assert mutate.compared is intent.compared


def test_labels_that_are_none_are_counted_where_selectors_ask_for_them():
    documents = [hook("aaa", ("*", "*/*"), objectSelector={"matchLabels": {"a": "b"}})]
    detection = Detection(Suspects(read_configurations(documents)))
    metadata = {"resourceVersion": "7", "labels": {"a": 1}}
    one = make_review(new={"metadata": metadata, "spec": {"a": 1}}, old={"metadata": metadata})
    assert detection.fact(OUTCOME, reviewed(one, OUTCOME), 100.0) is None
    assert detection.unreadable == 1


def test_annotations_of_a_deployment_are_compared_for_they_count():
    old, new = (
        {"metadata": {"annotations": {"a": value}, "labels": {"b": value}}} for value in "xy"
    )
    found = fact(OUTCOME, make_review(new=new, old=old))
    assert [one.pointer for one in found.compared.changes] == ["/metadata/annotations/a"]


def test_a_status_that_is_no_object_observes_nothing():
    one = update({"status": "fine"}, {"status": {}}, subresource="status")
    assert not fact(OUTCOME, one).observes
