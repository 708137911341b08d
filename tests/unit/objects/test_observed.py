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
from tests.cases_loader import Case, table


def read(status: Any) -> Observed | None:
    return read_observed(msgspec.Raw(json.dumps(status).encode()))


def conditions(listed: list[list[Any]]) -> tuple[Condition, ...]:
    return tuple(Condition(*one) for one in listed)


@table("objects/observed.yaml", "status", "own", "conditions", "read")
def test_every_value_of_a_status_is_read_whatever_else_it_holds(case: Case) -> None:
    found = read(case["status"])
    if not case.get("read", True):
        assert found is None, case.because
        return
    shown = case["own"], conditions(case.get("conditions", []))
    assert (found.own, found.conditions) == shown, case.because
    if case["own"] == "":
        assert list(restorations(found, NOTHING_OBSERVED)) == []
        assert list(restorations(Observed(4, ()), found)) == []


@table("objects/restored.yaml", "wanted", "found", "back")
def test_what_is_cleared_is_put_back_and_no_other_value(case: Case) -> None:
    wanted, found = (Observed(None, conditions(case[key])) for key in ("wanted", "found"))
    back = [[one.path[2], one.value] for one in restorations(wanted, found)]
    assert back == case["back"], case.because


def test_an_absent_status_is_nothing_observed():
    assert read_observed(None) == NOTHING_OBSERVED
    assert not NOTHING_OBSERVED.anything


def test_conditions_without_a_type_are_neither_lost_nor_awaited():
    without = Observed(3, (Condition(None, None),))
    assert without.complete
    assert not Observed(None, (Condition(None, 3),)).anything


@pytest.mark.parametrize(("length", "is_kept"), [(316, True), (317, False)])
def test_a_type_may_be_as_long_as_kubernetes_lets_it_be(length, is_kept):
    long = "T" * length
    found = read({"conditions": [{"type": long, "observedGeneration": 2}]})
    assert found == Observed(None, (Condition(long if is_kept else None, 2),))


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
