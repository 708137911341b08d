"""Comparing two comparisons finds what comparing the objects finds, without the objects."""

from collections.abc import Iterable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from genguard.detection.changes import MOST_LEAVES, Change, changes
from genguard.detection.diff import NO_DIFF, Diff, between, compare, digests, together
from genguard.objects.fields import fields_of
from tests.property.test_changes import DOCUMENTS

CONDITIONS = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["Ready", "Progressing", "Available"])},
        optional={"status": st.sampled_from(["True", "False"]), "lastUpdateTime": st.text("12")},
    ),
    max_size=4,
)
"""Often told apart by type, and by position where a type comes twice."""
STATUSES = st.fixed_dictionaries(
    {}, optional={"conditions": CONDITIONS | st.none() | st.just({}), "replicas": st.integers(0, 2)}
)
OBJECTS = DOCUMENTS | st.fixed_dictionaries({"status": STATUSES})


def leaves(found: Iterable[Change] | None) -> dict[Any, Any]:
    assert found is not None
    return {one.key: (one.before, one.after) for one in found}


def both(stored: Any, left: Any, right: Any) -> tuple[Diff, Diff]:
    return compare(fields_of(stored), fields_of(left)), compare(fields_of(stored), fields_of(right))


@given(OBJECTS, OBJECTS, OBJECTS)
@settings(max_examples=600)
def test_two_comparisons_differ_as_their_objects_do(stored, left, right):
    direct = changes(fields_of(left), fields_of(right))
    assert leaves(between(*both(stored, left, right))) == leaves(direct)


@given(OBJECTS, OBJECTS, OBJECTS)
def test_what_differs_is_told_in_the_order_of_pointers(stored, left, right):
    found = between(*both(stored, left, right)) or ()
    assert [one.pointer for one in found] == sorted(one.pointer for one in found)


FIELDS = st.dictionaries(st.sampled_from("abc"), st.integers(0, 2) | st.none(), max_size=3)


@given(FIELDS, FIELDS, FIELDS)
def test_where_no_list_is_involved_pointers_are_the_same_too(one, two, three):
    stored, left, right = ({"spec": found} for found in (one, two, three))
    direct = changes(fields_of(left), fields_of(right))
    found = between(*both(stored, left, right))
    assert found is not None
    # Whether a value has grown is known of two values, and not of their digests.
    assert found.changes == tuple(replace(one, is_progress=False) for one in direct)


@given(OBJECTS, OBJECTS)
def test_fields_compared_one_by_one_are_compared_together(before, after):
    old, new = fields_of(before), fields_of(after)
    parts = [
        compare(
            {key: raw for key, raw in old.items() if key in some},
            {key: raw for key, raw in new.items() if key in some},
        )
        for some in (("status",), ("spec", "data"))
    ]
    assert together(*parts) == compare(old, new)


@given(OBJECTS, OBJECTS)
def test_digests_are_equal_in_any_order_of_fields(before, after):
    old, new = fields_of(before), fields_of(after)
    turned = dict(reversed(old.items())), dict(reversed(new.items()))
    assert digests(*turned) == digests(old, new)


def test_comparisons_with_different_stored_objects_tell_nothing_of_each_other():
    one = compare(fields_of({"spec": 1}), fields_of({"spec": 2}))
    other = compare(fields_of({"spec": 3}), fields_of({"spec": 2}))
    assert between(one, other) is None


def test_where_more_differs_than_is_told_nothing_is_said_unless_all_is_equal():
    many = fields_of({"data": {str(number): number for number in range(MOST_LEAVES + 1)}})
    most = fields_of({"data": {str(number): number for number in range(MOST_LEAVES)}})
    one, other = compare({}, many), compare({}, most)
    assert between(one, other) is None
    assert between(one, compare({}, dict(many))) == NO_DIFF


def test_a_field_called_as_an_item_of_the_list_that_replaces_it_is_not_guessed_at():
    stored = fields_of({"spec": {"a": {"type=Ready": {"type": "Ready", "b": 1}}}})
    made = fields_of({"spec": {"a": [{"type": "Ready", "b": 2}]}})
    one, other = compare(stored, made), compare(stored, fields_of({"spec": {"a": 1}}))
    assert between(one, other) is None


def test_fields_that_change_places_differ():
    one, other = fields_of({"spec": 1, "data": 2}), fields_of({"spec": 2, "data": 1})
    before, after = digests(one, other)
    assert before != after
    assert len(compare(one, other)) == 2
