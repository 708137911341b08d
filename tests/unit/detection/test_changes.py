"""What differs, leaf by leaf, where nothing in an ordinary object leads to."""

import msgspec
import pytest

from genguard.detection import changes as module
from genguard.detection.changes import MOST_LEAVES, changes
from genguard.detection.diff import Compared, between, digests
from genguard.detection.finding import Actor, Confidence
from genguard.objects.fields import fields_of
from tests.property.test_compared import compare

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


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({}, {str(n): n for n in range(20_000)}),
        ({str(n): n for n in range(20_000)}, {}),
        ({"a": list(range(20_000))}, {"a": list(range(1, 20_001))}),
        ({"a": {f"o{n}": n for n in range(20_000)}}, {"a": {f"n{n}": n for n in range(20_000)}}),
        (
            {"a": [{"name": str(n)} for n in range(20_000)]},
            {"a": [{"name": str(-n)} for n in range(20_000)]},
        ),
    ],
    ids=["new fields", "fields that are gone", "numbers", "fields further down", "items"],
)
def test_beyond_the_leaves_that_are_kept_no_path_is_made(monkeypatch, old, new):
    made = []
    monkeypatch.setattr(module, "salt", lambda path: made.append(path) or 1)
    changes(fields_of({"spec": old}), fields_of({"spec": new}), ["spec"])
    assert len(made) <= 2 * MOST_LEAVES + 10  # of an item its own path and that of its name


def test_a_text_that_is_written_otherwise_is_the_same():
    one, other = {"spec": msgspec.Raw(b'"a"')}, {"spec": msgspec.Raw(b'"\\u0061"')}
    assert changes(one, other, ["spec"]) == ()


def compared(old, new) -> Compared:
    return compare(fields_of({"spec": old}), fields_of({"spec": new}))


def test_results_that_start_from_different_objects_cannot_be_told_apart():
    assert between(compared({"a": 1}, {"a": 2}), compared({"a": 0}, {"a": 3})) is None


def test_nor_can_results_of_which_not_all_is_known():
    some, many = compared({"a": 1}, {"a": 2}), compared({"a": 1}, {str(n): n for n in MANY})
    assert between(some, many) is between(many, some) is None


@pytest.mark.parametrize(
    ("type_", "name", "told"),
    [
        ("webhook", "mmm/h.example.org", "mmm/h.example.org (likely)"),
        ("user", "alice", "alice (likely)"),
        ("policy", "pins", "policy pins (likely)"),
    ],
)
def test_an_actor_is_told_as_people_read_it(type_, name, told):
    assert Actor(type_, name, "kubectl", Confidence.LIKELY).label == told


def test_the_processes_of_a_user_are_told_with_it():
    one = Actor("user", "operator", "", Confidence.CERTAIN, ("pod-a", "pod-b"))
    assert one.label == "operator (certain, from pod-a and pod-b)"


X, Y = {"name": "x", "o": {"a": 1, "b": 1}}, {"name": "y"}


def test_what_is_gone_is_told_by_where_it_was_and_the_rest_by_where_it_is():
    old, new = {"spec": [X, Y]}, {"spec": [Y, {"name": "x", "o": {"b": 2}}]}
    found = changes(fields_of(old), fields_of(new), ["spec"])
    assert [one.pointer for one in found] == ["/spec", "/spec/0/o/a", "/spec/1/o/b"]


@pytest.mark.parametrize(
    ("right", "pointer"),
    [([{"name": "x", "o": {"a": 1, "b": 3}}, Y], "/spec/0/o/b"), ([Y], "/spec/1/o/b")],
    ids=["by where the second has it", "by where the first has it, for the second has not"],
)
def test_what_two_moved_otherwise_is_told_once(right, pointer):
    left = [Y, {"name": "x", "o": {"a": 1, "b": 2}}]
    found = between(compared([X, Y], left), compared([X, Y], right))
    assert found is not None
    assert pointer in [one.pointer for one in found if one.key[-1] == "b"]


def test_a_field_that_is_left_out_is_in_no_digest():
    old, new = fields_of({"spec": 1, "status": 1}), fields_of({"spec": 1, "status": 2})
    without = fields_of({"spec": 1})
    assert digests(old, new, {"status"}) == digests(without, without)


def test_what_one_write_leaves_is_what_the_next_one_finds():
    old, new = fields_of({"spec": 1, "data": 1}), fields_of({"spec": 2, "more": 3})
    assert digests(old, new)[1] == digests(new, old)[0]
