"""What would have been stored is carried into later reviews, and no line is lost for a fault."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genguard.detection.finding import Actor, Confidence
from genguard.detection.suspects import Suspects
from genguard.detection.trial import Taken
from genguard.formats.lines import LongLine
from genguard.generation.transition import Engine
from genguard.objects.fields import ABSENT
from genguard.review_setup import ReviewOptions, ReviewSetup
from genguard.trying import StepTaken, merged, with_field_of
from tests.reviews import make_review

ENGINE: Engine = ReviewSetup(ReviewOptions()).dependencies.engine
KEYS = st.sampled_from(["a", "b", "name", "type"])
VALUES = st.recursive(
    st.none() | st.sampled_from(["", "x", "y", 1, 2]),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(KEYS, below, max_size=3),
    max_leaves=12,
)
PATHS = st.lists(KEYS | st.sampled_from(["0", "1"]), max_size=4)
EACH_WRITE = Taken(
    paths=("/spec/replicas",), writers=(Actor("user", "someone", "", Confidence.CERTAIN),)
)


@given(VALUES, VALUES, st.booleans())
def test_a_change_that_one_side_makes_is_taken(base, other, keeps_ours):
    assert merged(base, other, base, keeps_ours=keeps_ours) == other
    assert merged(base, base, other, keeps_ours=keeps_ours) == other


@given(VALUES, VALUES, VALUES)
def test_where_both_sides_are_no_container_one_wins(base, theirs, ours):
    found = merged({"a": base}, {"a": theirs}, {"a": ours})
    kept = merged({"a": base}, {"a": theirs}, {"a": ours}, keeps_ours=True)
    if not any(isinstance(one, dict | list) for one in (base, theirs, ours)):
        assert found["a"] == (ours if base == theirs else theirs)
        assert kept["a"] == (theirs if base == ours else ours)


@given(VALUES, VALUES, PATHS)
def test_a_field_is_afterwards_as_in_the_other_object(target, source, path):
    found = with_field_of(target, source, path)
    assert _at(found, path) == _at(source, path)
    assert with_field_of(found, source, path) == found
    assert with_field_of(target, target, path) == target


def _at(value, path):
    for step in path:
        if isinstance(value, dict):
            value = value.get(step, ABSENT)
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return ABSENT
    return value


def test_an_item_is_found_by_its_name_and_the_new_order_stays():
    base = [{"type": "A", "status": 1}, {"type": "B", "status": 1}]
    theirs = [{"type": "B", "status": 1}, {"type": "A", "status": 2}, {"type": "C"}]
    ours = [{"type": "A", "status": 1}, {"type": "B", "status": 5}]
    assert merged(base, theirs, ours) == [
        {"type": "B", "status": 5},
        {"type": "A", "status": 2},
        {"type": "C"},
    ]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"nonsense",
        b"[1]",
        b"{}",
        LongLine(7),
        b'{"time": "2026-01-01T00:00:00Z", "phase": "intent"}',
        b'{"time": "2026-01-01T00:00:00Z", "phase": "early", "review": {}}',
        b'{"time": "2026-01-01T00:00:00Z", "phase": "intent", "review": {"request": []}}',
        b"[" * 100_000,
        json.dumps(make_review(new={"spec": {"replicas": 1}}, old={})).encode(),
    ],
)
def test_what_is_no_recorded_review_stays_as_it_is(line):
    step = StepTaken(EACH_WRITE, Suspects(), ENGINE)
    assert list(step.lines([line])) == [line]


def recorded(phase: str, before: object, after: object, version: str, user: str) -> bytes:
    old = {"metadata": {"uid": "u", "resourceVersion": version}, "spec": before}
    review = make_review(new={**old, "spec": after}, old=old)
    review["request"]["userInfo"] = {"username": user}
    row = {"time": "2026-01-01T00:00:00Z", "phase": phase, "review": review}
    return msgspec.json.encode(row)


@given(
    st.lists(st.tuples(st.sampled_from(["someone", "a", "b"]), st.integers(1, 3)), max_size=8),
)
def test_what_a_writer_leaves_is_what_others_made_it(writes):
    lines, stored, kept = [], 0, 0
    expected = []
    for number, (user, wanted) in enumerate(writes):
        before, after = ({"replicas": one, "n": number} for one in (stored, wanted))
        lines += [recorded(one, before, after, str(number), user) for one in ("intent", "outcome")]
        # Who sends what he has read asks for nothing.
        if user != "someone" and wanted != stored:
            kept = wanted
        expected.append(kept)
        stored = wanted
    step = StepTaken(EACH_WRITE, Suspects(), ENGINE)
    for number, value in enumerate(expected):
        for line in step.lines(lines[2 * number : 2 * number + 2]):
            found = msgspec.json.decode(line)["review"]["request"]["object"]
            assert found["spec"]["replicas"] == value
