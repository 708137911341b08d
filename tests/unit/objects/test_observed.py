"""Reading every observedGeneration of a status, whatever else it holds."""

import json
from functools import lru_cache
from typing import Any

import msgspec
import pytest

from genguard.objects import observed
from genguard.objects.observed import (
    NOTHING_OBSERVED,
    Condition,
    Observed,
    read_observed,
    restorations,
)


def read(status: Any) -> Observed | None:
    return read_observed(msgspec.Raw(json.dumps(status).encode()))


def test_own_and_conditions_are_read():
    status = {
        "observedGeneration": 4,
        "conditions": [{"type": "Ready", "status": "True", "observedGeneration": 3}, {"type": "A"}],
    }
    assert read(status) == Observed(4, (Condition("Ready", 3), Condition("A", None)))


@pytest.mark.parametrize("cleared", [0, None, "", -0])
def test_cleared_values_read_as_none(cleared):
    assert read({"observedGeneration": cleared}) == NOTHING_OBSERVED
    assert not NOTHING_OBSERVED.anything


@pytest.mark.parametrize("value", [1, -1, 2**63 - 1, "7", "-1"])
def test_generations_are_numbers_or_their_digits(value):
    found = read({"observedGeneration": value})
    assert found == Observed(value, ())
    assert found.anything


@pytest.mark.parametrize(
    "value", [True, False, 1.0, 0.0, 1.5, [], {}, [1], "6b8c9d", "1 ", "1.0", 2**63, "9" * 20]
)
def test_anything_else_is_foreign_never_restored_and_never_restored_over(value):
    foreign = read({"observedGeneration": value})
    assert foreign is not None
    assert list(restorations(foreign, NOTHING_OBSERVED)) == []
    assert list(restorations(Observed(4, ()), foreign)) == []


@pytest.mark.parametrize("status", ["fine", 5, [], True, 1.5])
def test_a_status_that_is_no_object_is_not_read(status):
    assert read(status) is None


def test_absent_and_null_are_nothing_observed():
    assert read_observed(None) == read(None) == NOTHING_OBSERVED


@pytest.mark.parametrize("conditions", ["x", {}, 5, [1], [None], [[]], ["Ready"], None, []])
def test_conditions_of_another_shape_are_no_conditions(conditions):
    assert read({"observedGeneration": 2, "conditions": conditions}) == Observed(2, ())


NO_TYPES = {
    "absent": {},
    "null": {"type": None},
    "a number": {"type": 5},
    "a list": {"type": ["Ready"]},
    "too long": {"type": "T" * 317},
}


@pytest.mark.parametrize("kind", NO_TYPES.values(), ids=NO_TYPES)
@pytest.mark.parametrize("other", [*NO_TYPES.values(), {"type": ""}], ids=[*NO_TYPES, "empty"])
def test_a_condition_without_a_type_is_paired_with_none_and_left_alone(kind, other):
    set_, cleared = {"observedGeneration": 2, **kind}, {"observedGeneration": 0, **other}
    for conditions in ([set_], [set_, {"type": 7, "observedGeneration": 2}]):
        found = read({"observedGeneration": 1, "conditions": conditions})
        assert found is not None
        assert found.conditions[0] == Condition(None, 2)
        lost = read({"observedGeneration": 1, "conditions": [cleared]})
        assert lost is not None
        assert list(restorations(found, lost)) == []
        assert list(restorations(lost, found)) == []


def test_conditions_with_an_empty_type_are_of_one_type():
    found = Observed(None, (Condition("", 2),))
    assert read({"conditions": [{"type": "", "observedGeneration": 2}]}) == found
    assert [one.value for one in restorations(found, Observed(None, (Condition("", None),)))] == [2]


def test_conditions_without_a_type_are_neither_lost_nor_awaited():
    without = Observed(3, (Condition(None, None),))
    assert without.complete
    assert not Observed(None, (Condition(None, 3),)).anything


def test_a_type_may_be_as_long_as_kubernetes_lets_it_be():
    long = "T" * 316
    assert read({"conditions": [{"type": long, "observedGeneration": 2}]}) == Observed(
        None, (Condition(long, 2),)
    )


def test_it_knows_about_how_much_memory_it_takes():
    types = [f"{number}{'t' * 300}" for number in range(1_000)]
    plain = read({"conditions": [{"type": one} for one in types]})
    wide = read({"conditions": [{"type": f"\N{PILE OF POO}{one}"} for one in types]})
    assert plain is not None
    assert wide is not None
    assert plain.size > 300 * 1_000
    assert wide.size > 4 * 300 * 1_000


def test_more_conditions_than_any_kind_has_are_not_looked_at():
    thousand = [{"type": "A", "observedGeneration": 1}] * 1_000
    assert len((read({"conditions": thousand}) or NOTHING_OBSERVED).conditions) == 1_000
    assert read({"conditions": [*thousand, {}], "observedGeneration": 1}) == Observed(1, ())
    odd = {"conditions": [*thousand, {"type": 5}], "observedGeneration": 1}
    assert read(odd) == Observed(1, ())


def test_conditions_may_be_null_beside_a_generation_that_is_written_oddly():
    assert read({"observedGeneration": "2", "conditions": None}) == Observed("2", ())


def test_equal_ones_are_one_value_of_which_not_too_many_are_known(monkeypatch):
    once = lru_cache(5)(observed._once.__wrapped__)
    monkeypatch.setattr(observed, "_once", once)
    for generation in range(1, 20):
        found = read({"observedGeneration": generation})
        assert found == Observed(generation, ())
        assert found is read({"observedGeneration": generation})
        assert once.cache_info().currsize <= 5
    many = [{"type": f"{number}{'long' * 70}"} for number in range(50)]
    large = {"observedGeneration": 1, "conditions": many}
    assert read(large) == read(large)
    assert read(large) is not read(large)


def test_of_duplicate_keys_the_last_wins_as_in_the_api_server():
    raw = msgspec.Raw(b'{"observedGeneration":1,"observedGeneration":2}')
    assert read_observed(raw) == Observed(2, ())


def test_bytes_that_are_no_json_are_an_error():
    with pytest.raises(msgspec.DecodeError):
        read_observed(msgspec.Raw(b"{"))


def test_conditions_pair_by_type_and_by_order_within_it():
    wanted = Observed(None, (Condition("A", 1), Condition("B", 2), Condition("A", 3)))
    found = Observed(None, (Condition("A", None), Condition("A", None), Condition("B", 9)))
    assert [(one.path[2], one.value) for one in restorations(wanted, found)] == [(0, 1), (1, 3)]
