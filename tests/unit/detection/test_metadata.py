"""Labels, annotations, finalizers and owners: how they are compared, joined and remembered."""

import pytest

from genguard.detection.diff import NO_DIFF
from genguard.detection.fact import decode_fact, encode_fact
from genguard.detection.metadata import BOOKKEEPING
from tests.reviews import make_review
from tests.unit.detection.builders import (
    INTENT,
    MUTATE,
    OUTCOME,
    Judging,
    fact,
    feed,
    joined,
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


@pytest.mark.parametrize(
    ("old", "new", "told", "because"),
    [
        (labels(a="1", b="1"), labels(a="2", b="1"), ["/metadata/labels/a"], "another value"),
        ({}, labels(a="1"), ["/metadata/labels/a"], "a label that is new"),
        (notes(a="1"), {}, ["/metadata/annotations/a"], "the last annotation is gone"),
        (notes(a="1"), {"annotations": None}, ["/metadata/annotations/a"], "null is none"),
        (notes(a="1"), notes(a=""), ["/metadata/annotations/a"], "empty is a value"),
        (
            {"labels": {"a.b/c": "1"}},
            {"labels": {"a.b/c": "2"}},
            ["/metadata/labels/a.b~1c"],
            "a pointer escapes",
        ),
        (labels(b="1", a="1"), labels(a="1", b="1"), [], "another order"),
        ({"finalizers": ["a", "b"]}, {"finalizers": ["b", "a"]}, [], "their order means nothing"),
        ({"finalizers": ["a"]}, {"finalizers": ["b"]}, ["/metadata/finalizers"] * 2, "one for one"),
        ({"finalizers": ["a"]}, {}, ["/metadata/finalizers"], "the last one is gone"),
        (
            {"ownerReferences": [OWNER]},
            {"ownerReferences": [{**OWNER, "controller": True}]},
            ["/metadata/ownerReferences"],
            "it becomes the controller",
        ),
        (
            {"ownerReferences": [OWNER]},
            {"ownerReferences": [{**OWNER, "apiVersion": "v2", "blockOwnerDeletion": True}]},
            [],
            "the same owner",
        ),
        (
            {"ownerReferences": [OWNER, {**OWNER, "uid": "b"}]},
            {"ownerReferences": [{**OWNER, "uid": "b"}]},
            ["/metadata/ownerReferences"],
            "one of two is gone",
        ),
        ({"generation": 1}, {"generation": 2}, [], "the server counts"),
        ({"managedFields": []}, {"managedFields": [{}]}, [], "the server keeps it"),
    ],
)
def test_what_differs_in_metadata_is_told_by_key_and_never_by_place(old, new, told, because):
    found = fact(OUTCOME, update(new, old)).compared_metadata
    assert ([] if found is None else [one.pointer for one in found.diff]) == told, because


@pytest.mark.parametrize(("key", "source"), BOOKKEEPING.items())
def test_bookkeeping_is_not_compared_and_each_entry_has_a_source(key, source):
    name = f"{key}any" if key.endswith("/") else key
    one = update({"annotations": {name: "1", "own": "1"}}, {"annotations": {"own": "2"}})
    assert [change.key[-1] for change in fact(OUTCOME, one).compared_metadata.diff] == ["own"]
    assert "/" in source


@pytest.mark.parametrize(
    ("old", "new", "grown", "because"),
    [
        ("a", "ab", True, "at its end"),
        ("a", "ba", True, "at its beginning"),
        ("[1]", "[1,2]", True, "before the bracket that ends it"),
        ("ab", "ab", False, "equal"),
        ("ab", "a", False, "shorter"),
        ("ab", "cd", False, "another of that length"),
        ("ab", "acd", False, "something else at its end"),
        ("9", "10", False, "a number"),
        ("", "a", False, "nothing was there"),
    ],
)
def test_a_value_has_grown_where_the_stored_one_is_still_in_it(old, new, grown, because):
    found = fact(OUTCOME, update(notes(a=new), notes(a=old))).compared_metadata
    keys = [] if found is None else [one.key for one in found.diff if one.has_grown]
    assert bool(keys) == grown, because


def test_no_value_of_metadata_is_in_a_fact_and_of_finalizers_and_owners_no_name():
    old = {"uid": "u"}
    new = {
        "labels": {"team": SECRET},
        "annotations": {"note": SECRET},
        "finalizers": [SECRET],
        "ownerReferences": [{**OWNER, "uid": SECRET, "name": SECRET}],
    }
    found = fact(INTENT, update(new, old))
    assert len(found.compared_metadata.diff) == 4
    raw = encode_fact(found)
    assert SECRET.encode() not in raw
    assert decode_fact(raw) == found


def test_a_scale_has_no_metadata_of_its_object():
    one = update(labels(a="1"), {}, resource="deployments", subresource="scale")
    assert fact(OUTCOME, one).compared_metadata is None


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
    assert write.all_pointers() == ("/metadata/annotations/a", "/metadata/annotations/b")


def test_calls_with_one_key_that_differ_in_metadata_are_joined_with_those_that_show_the_same():
    old = labels(a="0")
    one, other = update(labels(a="1"), old), update(labels(a="2"), old)
    (write,) = joined(
        (INTENT, one), (INTENT, other), (MUTATE, one), (MUTATE, other), (OUTCOME, one)
    )
    assert write.metadata.requested == fact(INTENT, one).compared_metadata.diff
    assert write.metadata.webhook == NO_DIFF
    assert write.content.requested is not None


def test_a_write_without_outcome_whose_metadata_alone_was_changed_is_judged_as_incomplete():
    earlier = update({}, {}, "6")
    asked, left = update(labels(a="1"), {}), update({}, {})
    detection = Judging()
    for phase, one in ((OUTCOME, earlier), (INTENT, asked), (MUTATE, left)):
        feed(detection, phase, one, 100.0)
    detection.finish(200.0)
    assert [one.missing for one in detection.writes] == [(), (OUTCOME,)]


def written(value, base, now, stored="-"):
    one = update(labels(a=value), labels(a=stored), base, user=f"user-{value}")
    (write,) = joined((OUTCOME, one), now=now)
    return write


def test_what_cannot_be_read_is_counted():
    detection = Judging()
    feed(detection, OUTCOME, update(labels(a=1), labels(a="1")), 100.0)
    assert detection.unreadable == 1
