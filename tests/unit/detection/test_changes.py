"""What differs, leaf by leaf, where nothing in an ordinary object leads to."""

import msgspec
import pytest

from webhook.detection.changes import MOST_LEAVES, changes, digest
from webhook.detection.compared import Compared, between, compare
from webhook.detection.difference import Difference, Reader, from_plain, plain
from webhook.detection.finding import Actor, Confidence
from webhook.objects.fields import fields_of

MANY = range(MOST_LEAVES + 10)


@pytest.mark.parametrize(
    ("old", "new", "because"),
    [
        ({}, {str(n): n for n in MANY}, "fields that are new"),
        ({str(n): n for n in MANY}, {"a": 1}, "fields that are gone"),
        ({"a": {str(n): n for n in MANY}}, {"a": {str(n): -1 for n in MANY}}, "other values"),
        ({"a": {str(n): n for n in MANY}}, {"a": {"b": 1}}, "fields that are gone below"),
        ({"a": []}, {"a": list(MANY)}, "items that are new"),
        ({"a": [{"name": "x"}]}, {"a": [{"name": str(n)} for n in MANY]}, "items by their name"),
        ({"a": [{"name": str(n)} for n in MANY]}, {"a": [{"name": "x"}]}, "items that are gone"),
        ({"a": 1}, {"a": {str(n): n for n in MANY}}, "a number that becomes an object"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_of_very_many_leaves_some_are_told(old, new, because):
    found = changes(fields_of({"spec": old}), fields_of({"spec": new}), ["spec"])
    assert MOST_LEAVES <= len(found) <= MOST_LEAVES + 1, because


def test_a_text_that_is_written_otherwise_is_the_same():
    one, other = {"spec": msgspec.Raw(b'"a"')}, {"spec": msgspec.Raw(b'"\\u0061"')}
    assert changes(one, other, ["spec"]) == ()


def test_equal_bytes_have_equal_digests_and_what_is_absent_has_none():
    assert digest(b"{}") == digest(msgspec.Raw(b"{}")) != digest(b"[]")
    assert digest(None) is None


def compared(old, new) -> Compared:
    return compare(fields_of({"spec": old}), fields_of({"spec": new}), Reader())


def test_results_that_start_from_different_objects_cannot_be_told_apart():
    assert between(compared({"a": 1}, {"a": 2}), compared({"a": 0}, {"a": 3})) is None


def test_nor_can_results_of_which_not_all_is_known():
    some, many = compared({"a": 1}, {"a": 2}), compared({"a": 1}, {str(n): n for n in MANY})
    assert between(some, many) is between(many, some) is None


def test_a_difference_equals_nothing_of_another_kind_and_shows_its_leaves():
    (leaf,) = changes(fields_of({"a": 1}), fields_of({"a": 2}), ["a"])
    assert Difference((leaf,)) == Difference((leaf,))
    assert Difference((leaf,)) != (leaf,)
    assert repr(Difference((leaf,))) == f"Difference(({leaf!r},), differs=True)"


def test_nothing_else_is_written_or_read_as_a_difference():
    with pytest.raises(NotImplementedError):
        plain(object())
    with pytest.raises(NotImplementedError):
        from_plain(object, 1)


@pytest.mark.parametrize(
    ("type_", "name", "told"),
    [
        ("webhook", "mmm/h.example.org", "mmm/h.example.org (likely)"),
        ("user", "alice", "alice (likely)"),
        ("policy", "pins", "policy pins (likely)"),
    ],
)
def test_an_actor_is_told_as_people_read_it(type_, name, told):
    assert Actor(type_, name, "kubectl", Confidence.LIKELY).told == told
