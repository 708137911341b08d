"""A finding shows one of its writes: the values that were before, asked, left and stored."""

import json

import msgspec
import pytest

from genguard.detection.detection import Detection
from genguard.detection.finding_state import SECONDS_BETWEEN_SAMPLES
from genguard.detection.sample import (
    MOST_BYTES,
    MOST_FIELDS,
    is_at_or_below,
    sample_of,
    shown_diff,
    values_of,
)
from genguard.detection.values import Shows
from tests.cases_loader import read_beside, table
from tests.unit.detection.builders import (
    INTENT,
    MUTATE,
    OUTCOME,
    Examining,
    feed,
    joined,
    rows_of,
    update,
)


def write(stored, asked, left=None, came=None, **more):
    """The three phases of one write of status."""
    left = asked if left is None else left
    came = left if came is None else came
    kind = {"subresource": "status", **more}
    phases = ((INTENT, asked), (MUTATE, left), (OUTCOME, came))
    return [(phase, update({"status": one}, {"status": stored}, **kind)) for phase, one in phases]


def values(stored, asked, left=None, came=None, **more):
    (one,) = joined(*write(stored, asked, left, came, **more))
    return {row.field: states(row) for row in values_of(one, {})}


@table("findings/sample_first.yaml", "pointer", "first", "is_first")
def test_a_field_is_first_where_it_or_what_it_is_in_was_named(case):
    found = is_at_or_below(case["pointer"], frozenset(case["first"]))
    assert found is case["is_first"], case.because


def states(row):
    return tuple(one and (one.hidden or ("-" if one.absent else one.text)) for one in row.states)


@table("findings/sample_values.yaml", "stored", "asked", "left", "came", "shown")
def test_the_four_values_of_a_field(case):
    found = values(case["stored"], case["asked"], case.get("left"), case.get("came"))
    assert found["status.n"] == tuple(case["shown"]), case.because


def test_what_was_not_seen_is_not_known():
    _, mutate, outcome = write({"n": 1}, {"n": 2}, {"n": 0})
    (one,) = joined(mutate, outcome)
    (row,) = values_of(one, {})
    assert states(row) == ("1", None, None, "0")


def condition(name, **fields):
    return {"type": name, "status": "True", **fields}


def test_conditions_are_named_by_type_wherever_they_are_in_the_list():
    stored = {"conditions": [condition("Ready", n=1), condition("Healthy", n=1)]}
    asked = {"conditions": [condition("Healthy", n=2), condition("Ready", n=1)]}
    assert values(stored, asked) == {"status.conditions[Healthy].n": ("1", "2", "2", "2")}


def test_an_item_whose_type_is_no_name_is_named_by_its_place():
    stored = {"conditions": [condition("my secret", n=1)]}
    asked = {"conditions": [condition("my secret", n=2)]}
    assert list(values(stored, asked)) == ["status.conditions[0].n"]


def test_items_that_have_a_name_are_named_by_their_place():
    stored = {"parts": [{"name": "db-password", "n": 1}]}
    asked = {"parts": [{"name": "db-password", "n": 2}]}
    assert list(values(stored, asked)) == ["status.parts[0].n"]


def test_keys_that_are_no_plain_names_stand_in_brackets():
    assert list(values({"a.b/c": 1}, {"a.b/c": 2})) == ['status["a.b/c"]']


def found(shows=Shows.PLAIN, resource="deployments", times=8, seconds=1.0):
    detection = Detection(shows=shows)
    stored = {"observedGeneration": 4, "note": "old", "n": 1}
    for number in range(times):
        asked = {"observedGeneration": 5, "note": "my secret", "n": 2}
        left = {"note": "my secret", "n": 2}
        for phase, one in write(stored, asked, left, base=str(number), resource=resource):
            feed(detection, phase, one, 100.0 + number * seconds)
    (finding, *_) = detection.findings()
    (raw,) = detection.ledger.samples({finding.id}).values()
    return detection, finding, raw


def test_a_finding_has_one_of_its_writes_with_the_patch_of_the_webhooks():
    _, _, raw = found()
    diff = shown_diff(raw)
    assert diff is not None
    told = json.loads(msgspec.json.encode(diff))
    assert {key: told[key] for key in ("fields", "patch")} == read_beside(
        __file__, "shown_diff.yaml"
    )


@pytest.mark.parametrize(
    ("shows", "resource", "is_shown"),
    [
        (Shows.PLAIN, "deployments", False),
        (Shows.ALL, "deployments", True),
        (Shows.ALL, "secrets", False),
    ],
)
def test_texts_are_shown_with_the_flag_and_those_of_secrets_never(shows, resource, is_shown):
    _, _, raw = found(shows, resource)
    assert (b"my secret" in raw) is is_shown
    if resource == "secrets":
        diff = shown_diff(raw)
        assert diff is not None
        states = [state for one in diff.fields for state in one.states if state is not None]
        assert all(one.hidden or one.absent for one in states), "numbers of a Secret, too"


def test_the_sample_survives_an_export():
    detection, finding, raw = found()
    other = Detection()
    other.ledger.restore(rows_of(detection.ledger))
    assert other.ledger.samples({finding.id}) == {finding.id: raw}


def test_a_sample_is_replaced_by_a_later_one_at_most_once_in_a_while():
    def time_of(times, seconds):
        diff = shown_diff(found(times=times, seconds=seconds)[2])
        assert diff is not None
        return diff.time

    early = time_of(4, 1.0)
    assert time_of(40, 1.0) == early, "40 s are no minute"
    assert time_of(40, SECONDS_BETWEEN_SAMPLES / 10) > early


@pytest.mark.parametrize("longest", [1, 250, 5_000])
def test_a_sample_is_bounded_in_fields_and_bytes(longest):
    detection = Examining(shows=Shows.ALL)
    stored = {f"{'k' * longest}{number}": "x" * 250 for number in range(100)}
    asked = dict.fromkeys(stored, "y" * 250)
    for phase, one in write(stored, asked, stored):
        feed(detection, phase, one, 100.0)
    raw = sample_of(detection.writes[0], ())
    assert raw is not None
    assert len(raw) <= MOST_BYTES
    diff = shown_diff(raw)
    assert diff is not None
    assert 0 < len(diff.fields) <= MOST_FIELDS
    assert len(diff.fields) + diff.more == 100
