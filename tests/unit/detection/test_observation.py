"""What a review leaves behind: small, without contents, and the same on every replica."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genguard.admission.matching import ResourceKind, read_configurations, read_policies
from genguard.admission.review import Phase
from genguard.detection.detection import Detection
from genguard.detection.diff import Diff
from genguard.detection.mutators import Mutators
from genguard.detection.observation import (
    VERSION,
    UnreadableObservationError,
    decode_observation,
    encode_observation,
)
from genguard.detection.write import Requester
from genguard.generation import CustomResource, StatusSubresource
from tests.cases_loader import Case, table
from tests.property.test_changes import VALUES
from tests.property.test_compared import STATUSES
from tests.reviews import KINDS, make_dependencies, make_review
from tests.unit.detection.builders import (
    INTENT,
    MUTATE,
    OUTCOME,
    Examining,
    feed,
    observation,
    reviewed,
    spec,
    update,
)
from tests.unit.detection.evaluating import CONDITIONS
from tests.unit.detection.policies import binding, policy
from tests.unit.detection.test_actors import only_if
from tests.unit.detection.test_mutators import hook

OBJECTS = st.fixed_dictionaries(
    {"spec": st.dictionaries(st.sampled_from("ab"), VALUES, max_size=2)},
    optional={"status": STATUSES, "data": VALUES},
)
SUBRESOURCES = st.sampled_from(["", "status", "scale"])
RESOURCES = st.sampled_from(["deployments", "pods", "widgets"])


@given(OBJECTS, OBJECTS, st.sampled_from(list(Phase)), SUBRESOURCES, RESOURCES)
def test_an_observation_is_decoded_as_it_was_encoded(old, new, phase, subresource, resource):
    one = observation(phase, update(new, old, subresource=subresource, resource=resource))
    assert decode_observation(encode_observation(one)) == one


@given(OBJECTS, OBJECTS, OBJECTS, SUBRESOURCES, RESOURCES)
def test_replicas_that_see_one_phase_each_examine_as_one_that_sees_all(
    stored, asked, left, subresource, resource
):
    alone, apart = Examining(), Examining()
    for phase, new in ((INTENT, asked), (MUTATE, left), (OUTCOME, left)):
        one = update(new, stored, subresource=subresource, resource=resource)
        feed(alone, phase, one, 100.0)
        apart.see(decode_observation(encode_observation(observation(phase, one))))
    assert apart.writes == alone.writes
    assert apart.findings() == alone.findings()


DEFINED = {
    known.value: make_dependencies(
        audit_only=True, custom=[CustomResource(*KINDS["widgets"], known)]
    )
    for known in StatusSubresource
}
CONTENT = "d41d8cd98f00"


def test_no_value_of_an_object_no_label_and_no_annotation_is_in_it():
    conditional = hook("aaa", ("*", "*/*"), **only_if("false"))
    documents = [conditional, policy(), binding()]
    mutators = Mutators(
        read_configurations(documents), read_policies(documents), conditions=CONDITIONS
    )
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
        mutators.changed(ResourceKind("example.org", "widgets", subresource))
        for phase in Phase:
            found = Detection(mutators).observe(phase, reviewed(one, phase), 100.0)
            assert found is not None
            assert found.compared()
            raw = encode_observation(found)
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
def test_what_is_no_observation_is_refused_in_one_way(raw, because):
    with pytest.raises(UnreadableObservationError, match="this version"):
        decode_observation(raw)


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
def test_an_observation_that_is_wrong_in_one_place_is_refused(position, value, because):
    parts = msgspec.msgpack.decode(
        encode_observation(observation(OUTCOME, update(spec(a=1), spec(a=2))))
    )
    parts[position] = value
    with pytest.raises(UnreadableObservationError) as error:
        decode_observation(msgspec.msgpack.encode(parts))
    assert CONTENT not in str(error.value), because


@pytest.mark.parametrize("sent", ["6", "7"])
def test_of_a_dry_run_there_is_no_observation(sent):
    one = update(spec(a=1), spec(a=2), base="7", sent=sent, dry_run=True)
    assert Detection().observe(MUTATE, reviewed(one, MUTATE), 100.0) is None


def test_of_a_stale_version_there_is_an_observation_without_contents_and_no_outcome():
    one = update(spec(a=CONTENT), spec(a=2), base="7", sent="6" * 5_000)
    found = Detection().observe(MUTATE, reviewed(one, MUTATE), 100.0)
    assert found.is_stale
    raw = encode_observation(found)
    assert decode_observation(raw) == found
    assert CONTENT.encode() not in raw
    assert len(raw) < 500
    assert Detection().observe(OUTCOME, reviewed(one, OUTCOME), 100.0) is None


def test_a_stale_version_with_options_that_cannot_be_read_is_counted():
    one = update(spec(a=1), spec(a=2), base="7", sent="6")
    one["request"]["options"] = {"fieldManager": 3}
    detection = Detection()
    assert detection.observe(MUTATE, reviewed(one, MUTATE), 100.0) is None
    assert detection.unreadable == 1


def test_of_a_request_that_stores_nothing_there_is_no_observation():
    one = make_review("CONNECT", "pods", spec(a=2), spec(a=1), subresource="exec")
    assert Detection().observe(OUTCOME, reviewed(one, OUTCOME), 100.0) is None


STORED = {"spec": {"a": 1}, "status": {"b": 1, "observedGeneration": 4}}
SENT = {"spec": {"a": 2}, "status": {"b": 2, "observedGeneration": 4}}
KEYS = ("resource", "definition", "to", "stored", "sent", "compared", "perhaps")


@table("observations/compared.yaml", *KEYS)
def test_what_the_server_may_take_of_a_write_is_compared(case: Case):
    old, new = (
        {key: fields[key] for key in case[name]}
        for name, fields in (("stored", STORED), ("sent", SENT))
    )
    one = update(new, old, resource=case["resource"], subresource=case.get("to", ""))
    found = observation(MUTATE, one, dependencies=DEFINED[case.get("definition", "unknown")])
    assert _told(found.compared()) == case["compared"], case.because
    perhaps = (
        None if found.writes_status else found.compared_status and _told(found.compared_status)
    )
    assert perhaps == case.get("perhaps"), case.because
    takes_status = not {"status", "+status"}.isdisjoint(case["compared"])
    assert found.writes_status is takes_status, case.because
    is_observed = takes_status or perhaps is not None
    assert found.observed.own == (4 if is_observed else None)


def _told(compared: Diff) -> list[str]:
    """The fields that differ, with a + where there was none, and a - where there is none now."""
    signs = {(True, False): "+", (False, True): "-"}
    found = ((one, one.pointer.split("/")[1]) for one in compared)
    return list(dict.fromkeys(signs.get((one.added, one.removed), "") + at for one, at in found))


@table("observations/field_managers.yaml", "options", "manager")
def test_who_asked_is_told_with_the_field_manager(case):
    one = update(spec(a=1), spec(a=2), options=case["options"])
    if case["options"] == "absent":
        del one["request"]["options"]
    assert observation(OUTCOME, one).requester == Requester("someone", case["manager"]), (
        case.because
    )


def test_a_field_manager_is_cut_where_the_api_server_takes_no_longer_one():
    one = update(spec(a=1), spec(a=2), options={"fieldManager": "m" * 200})
    assert observation(OUTCOME, one).requester == Requester("someone", "m" * 128)


@pytest.mark.parametrize(
    ("resource", "told"), [("deployments", ["/metadata/annotations/a"]), ("replicasets", [])]
)
def test_annotations_of_a_deployment_are_compared_for_they_count(resource, told):
    old, new = (
        {"metadata": {"annotations": {"a": value}, "labels": {"b": value}}} for value in "xy"
    )
    found = observation(OUTCOME, make_review("UPDATE", resource, new, old))
    assert [one.pointer for one in found.compared()] == told
