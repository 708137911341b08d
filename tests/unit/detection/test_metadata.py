"""Labels, annotations, finalizers and owners: how they are compared, joined and remembered."""

import pytest

from genguard.detection.diff import NO_DIFF
from genguard.detection.metadata import BOOKKEEPING
from genguard.detection.observation import decode_observation, encode_observation
from tests.cases_loader import Case, table
from tests.reviews import make_review
from tests.unit.detection.builders import (
    INTENT,
    MUTATE,
    OUTCOME,
    Examining,
    feed,
    joined,
    observation,
)

SECRET = "d41d8cd98f00"  # noqa: S105 - a value that must not be found anywhere


def update(new, old, base="7", resource="configmaps", content=None, **more):
    """An update of an object with such metadata, upon version `base`."""
    body = content or {}
    version = {"resourceVersion": base, "uid": "u"}
    return make_review(
        "UPDATE",
        resource,
        {**body, "metadata": {**version, **new}},
        {**more.pop("was", body), "metadata": {**version, **old}},
        **more,
    )


def labels(**values):
    return {"labels": values}


def notes(**values):
    return {"annotations": values}


OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "one", "uid": "a"}


@table("observations/metadata.yaml", "old", "new", "told")
def test_what_differs_in_metadata_is_told_by_key_and_never_by_place(case: Case) -> None:
    found = observation(OUTCOME, update(case["new"], case["old"])).compared_metadata
    told = [] if found is None else [one.pointer for one in found]
    assert told == case["told"], case.because


@pytest.mark.parametrize(("key", "source"), BOOKKEEPING.items())
def test_bookkeeping_is_not_compared_and_each_entry_has_a_source(key, source):
    name = f"{key}any" if key.endswith("/") else key
    one = update({"annotations": {name: "1", "own": "1"}}, {"annotations": {"own": "2"}})
    assert [change.key[-1] for change in observation(OUTCOME, one).compared_metadata] == ["own"]
    assert "/" in source


@table("observations/grown.yaml", "old", "new", "grown")
def test_a_value_has_grown_where_the_stored_one_is_still_in_it(case: Case) -> None:
    one = update(notes(a=case["new"]), notes(a=case["old"]))
    found = observation(OUTCOME, one).compared_metadata
    keys = [] if found is None else [one.key for one in found if one.has_grown]
    assert bool(keys) == case["grown"], case.because


def test_no_value_of_metadata_is_in_an_observation_and_of_finalizers_and_owners_no_name():
    old = {"uid": "u"}
    new = {
        "labels": {"team": SECRET},
        "annotations": {"note": SECRET},
        "finalizers": [SECRET],
        "ownerReferences": [{**OWNER, "uid": SECRET, "name": SECRET}],
    }
    found = observation(INTENT, update(new, old))
    assert len(found.compared_metadata) == 4
    raw = encode_observation(found)
    assert SECRET.encode() not in raw
    assert decode_observation(raw) == found


def test_a_scale_has_no_metadata_of_its_object():
    one = update(labels(a="1"), {}, resource="deployments", subresource="scale")
    assert observation(OUTCOME, one).compared_metadata is None


def test_what_another_webhook_makes_of_metadata_is_told_from_what_was_asked():
    old, asked, made = notes(a="1", b="1"), notes(a="2", b="1"), notes(a="2", b="11")
    again = notes(a="2", b="111")
    (write,) = joined(
        (INTENT, update(asked, old)),
        (MUTATE, update(made, old)),
        (MUTATE, update(again, old)),
        (OUTCOME, update(again, old)),
    )
    found = write.metadata
    told = [
        [one.pointer[-1] for one in diff]
        for diff in (found.requested, found.webhook, found.reinvocation, found.admitted)
    ]
    assert told == [["a"], ["b"], ["b"], ["a", "b"]]
    assert [key[-1] for key in found.grown] == ["b"]


def test_calls_with_one_key_that_differ_in_metadata_are_joined_with_those_that_show_the_same():
    old = labels(a="0")
    one, other = update(labels(a="1"), old), update(labels(a="2"), old)
    (write,) = joined(
        (INTENT, one), (INTENT, other), (MUTATE, one), (MUTATE, other), (OUTCOME, one)
    )
    assert write.metadata.requested == observation(INTENT, one).compared_metadata
    assert write.metadata.webhook == NO_DIFF
    assert write.content.requested is not None


def test_a_write_without_outcome_whose_metadata_alone_was_changed_is_examined_as_incomplete():
    earlier = update({}, {}, "6")
    asked, left = update(labels(a="1"), {}), update({}, {})
    detection = Examining()
    for phase, one in ((OUTCOME, earlier), (INTENT, asked), (MUTATE, left)):
        feed(detection, phase, one, 100.0)
    detection.finish(200.0)
    assert [one.missing for one in detection.writes] == [(), (OUTCOME,)]


def test_what_cannot_be_read_is_counted():
    detection = Examining()
    feed(detection, OUTCOME, update({"ownerReferences": "a"}, {}), 100.0)
    assert detection.unreadable == 1
