"""Going down both sides at once finds what comparing every leaf of both would find."""

from hashlib import blake2b
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from genguard.detection.changes import MOST_LEAVES, changes
from genguard.objects.fields import fields_of, to_pointer

SCALARS = (
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "a", "b", 0.0, 1.0, 1.5])
)
ITEMS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["Ready", "Progressing", 1]),
        "name": st.sampled_from(["a", "b"]),
        "value": SCALARS,
    },
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(ITEMS, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "x/y", "lastTime"]), inner, max_size=3)
    ),
    max_leaves=12,
)
DOCUMENTS = st.dictionaries(st.sampled_from(["spec", "status", "data"]), VALUES, max_size=3)


def leaves(key: tuple[Any, ...], where: tuple[Any, ...], value: Any):
    """Every leaf by its key, with its pointer and its JSON; null is absent."""
    if isinstance(value, dict) and value:
        inside = [(name, name, child) for name, child in value.items()]
    elif isinstance(value, list) and value:
        inside = [(name, at, value[at]) for at, name in enumerate(identities(value))]
    else:
        return {} if value is None else {key: (to_pointer(where), msgspec.json.encode(value))}
    found = {}
    for name, at, child in inside:
        found |= leaves((*key, name), (*where, at), child)
    return found


def every_leaf(document: dict[str, Any]):
    found = {}
    for key, value in document.items():
        found |= leaves((key,), (key,), value)
    return found


def identities(items: list[Any]) -> list[Any]:
    for field in ("type", "name", "uid"):
        names = [one.get(field) if isinstance(one, dict) else None for one in items]
        if all(isinstance(name, str) for name in names) and len({*names}) == len(names):
            return [told(field, name) for name in names]
    return list(range(len(items)))


def told(field: str, name: str) -> str:
    """A type is a word of the API's, a name is content."""
    if field == "type":
        return f"type={name}"
    return f"{field}#{blake2b(name.encode(), digest_size=8).hexdigest()}"


@given(DOCUMENTS, DOCUMENTS)
@settings(max_examples=500)
def test_changes_are_the_leaves_that_differ(before, after):
    old, new = every_leaf(before), every_leaf(after)
    differing = {
        (key, key in old, key in new)
        for key in old.keys() | new.keys()
        if old.get(key, (None, None))[1] != new.get(key, (None, None))[1]
    }
    found = changes(fields_of(before), fields_of(after))
    assert {(one.key, not one.added, not one.removed) for one in found} == differing
    assert all(one.removed or one.pointer == new[one.key][0] for one in found)
    assert len(found) == len(differing)
    assert [one.pointer for one in found] == sorted(one.pointer for one in found)


@given(DOCUMENTS, DOCUMENTS)
def test_changes_back_are_the_same_the_other_way_round(before, after):
    there = changes(fields_of(before), fields_of(after))
    back = changes(fields_of(after), fields_of(before))
    assert {(one.key, one.before, one.after) for one in there} == {
        (one.key, one.after, one.before) for one in back
    }


@given(DOCUMENTS)
def test_what_is_equal_has_no_changes(document):
    assert changes(fields_of(document), fields_of(document)) == ()


def test_a_time_is_known_by_its_name_and_by_its_value():
    names = ("lastTransitionTime", "times", "fightTime")
    times = ("2024-05-01T10:00:00Z", "2024-05-01T10:00:01Z")
    before = {"status": {"lastTransitionTime": times[0], "times": times[0], "fightTime": "a"}}
    after = {"status": {"lastTransitionTime": times[1], "times": times[1], "fightTime": "b"}}
    found = changes(fields_of(before), fields_of(after))
    assert {one.key[-1]: one.holds_time for one in found} == dict(
        zip(names, (True, False, False), strict=True)
    )


def test_of_very_many_changes_some_are_told():
    many = {"data": {str(number): number for number in range(MOST_LEAVES + 10)}}
    assert len(changes({}, fields_of(many))) == MOST_LEAVES
