"""What differs, leaf by leaf, where nothing in an ordinary object leads to, and its digests."""

from hashlib import blake2b

import msgspec
import pytest

from genguard.detection.changes import LONGEST_NAME, MOST_LEAVES, Change, changes
from genguard.detection.diff import Diff, between, compare, digests
from genguard.detection.finding import Actor, Confidence, labels_of
from genguard.objects.fields import fields_of
from tests.cases_loader import table

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
    found = changes(fields_of({"spec": old}), fields_of({"spec": new}))
    assert MOST_LEAVES <= len(found) <= MOST_LEAVES + 1, because


def test_a_text_that_is_written_otherwise_is_the_same():
    one, other = {"spec": msgspec.Raw(b'"a"')}, {"spec": msgspec.Raw(b'"\\u0061"')}
    assert changes(one, other) == ()


def compared(old, new) -> Diff:
    return compare(fields_of({"spec": old}), fields_of({"spec": new}))


def test_results_that_start_from_different_objects_cannot_be_told_apart():
    assert between(compared({"a": 1}, {"a": 2}), compared({"a": 0}, {"a": 3})) is None


def test_nor_can_results_of_which_not_all_is_known():
    some, many = compared({"a": 1}, {"a": 2}), compared({"a": 1}, {str(n): n for n in MANY})
    assert between(some, many) is between(many, some) is None


@table("findings/labels.yaml", "actors", "told")
def test_actors_are_told_as_people_read_them_and_two_of_one_name_apart(case):
    made = [Actor(*one[:3], Confidence.LIKELY, *one[3:]) for one in case["actors"]]
    assert ", ".join(labels_of(made)) == case["told"], case.because


X, Y = {"name": "x", "o": {"a": 1, "b": 1}}, {"name": "y"}


def test_what_is_gone_of_an_item_is_told_by_where_the_item_is_now():
    old, new = {"spec": [X, Y]}, {"spec": [Y, {"name": "x", "o": {"b": 2}}]}
    found = changes(fields_of(old), fields_of(new))
    assert [one.pointer for one in found] == ["/spec", "/spec/1/o/a", "/spec/1/o/b"]


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


def test_what_one_write_leaves_is_what_the_next_one_finds():
    old, new = fields_of({"spec": 1, "data": 1}), fields_of({"spec": 2, "more": 3})
    assert digests(old, new)[1] == digests(new, old)[0]


def diff(*leaves: tuple[str, int | None]):
    """Of leaves with what they become."""
    return Diff(
        1, 2, tuple(Change((a,), f"/{a}", 7, new, holds_time=a == "time") for a, new in leaves)
    )


@table("observations/content_hash.yaml", "one", "other", "same")
def test_the_content_hash_depends_on_leaves_and_their_values(case):
    one, other = (diff(*case[side]).content_hash for side in ("one", "other"))
    assert (one == other) is case["same"], case.because


def fields(value: object):
    return fields_of({"status": {"phase": value}})


def test_what_an_earlier_phase_shows_is_returned_as_it_is():
    known = compare(fields(1), fields(2))
    assert compare(fields(1), fields(2), [known]) is known
    assert not compare(fields(1), fields(1), [known])


def key_of(value: object):
    (found,) = changes({}, fields_of({"spec": value}))
    return found.key[1:]


def test_the_name_of_an_item_is_content_and_stands_in_no_key():
    one, other = (key_of([{"name": name}]) for name in ("secret", "other"))
    assert one == (f"name#{blake2b(b'secret', digest_size=8).hexdigest()}", "name")
    assert one != other


def test_a_long_name_of_a_field_is_cut_and_told_from_others_by_a_digest():
    long = "x" * (LONGEST_NAME + 1)
    (name,) = key_of({long: 1})
    assert len(name) < LONGEST_NAME
    assert key_of({f"{long}y": 1}) != (name,)
    assert key_of({"x" * LONGEST_NAME: 1}) == ("x" * LONGEST_NAME,)
