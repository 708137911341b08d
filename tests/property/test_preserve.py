"""KEP-5067's laws for any status of any kind, against a second writing of the API server's code."""

import copy
from typing import Any

from hypothesis import given

from tests.property.strategies import STATUSES
from tests.reviews import ask, make_dependencies, make_review


def cleared(value: Any) -> bool:
    return value is None or value == "" or (type(value) is int and value == 0)


def generation(value: Any) -> bool:
    """What genguard takes for a generation: an int64, or one written as a string."""
    if type(value) is str:
        return value.lstrip("-").isdecimal() and len(value) < 20
    return type(value) is int and abs(value) < 2**63


def preserve_old_observed_generation(new: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    """pkg/registry/core/pod/strategy.go:preserveOldObservedGeneration, over JSON.

    Go pairs conditions without a type as those of type "". Nothing tells them apart, so genguard
    leaves them alone.
    """
    kept = copy.deepcopy(new)

    def keep(target: dict[str, Any], stored: Any) -> None:
        if cleared(target.get("observedGeneration")) and not cleared(stored) and generation(stored):
            target["observedGeneration"] = stored

    keep(kept, old.get("observedGeneration"))
    by_type: dict[str, list[Any]] = {}
    for condition in old.get("conditions", []):
        by_type.setdefault(condition.get("type"), []).append(condition.get("observedGeneration"))
    for condition in kept.get("conditions", []):
        stored = by_type.get(condition.get("type"))
        if stored and "type" in condition:
            keep(condition, stored.pop(0))
    return kept


@given(STATUSES, STATUSES)
def test_cleared_values_come_back_and_no_other_value_changes(new, old):
    asked = make_review(new={"status": new}, old={"status": old}, subresource="status")
    answer = ask(asked, make_dependencies())
    assert answer.object["status"] == preserve_old_observed_generation(new, old)


@given(STATUSES, STATUSES)
def test_the_main_endpoint_of_a_kind_with_a_status_subresource_is_left_alone(new, old):
    assert ask(make_review(new={"status": new}, old={"status": old})).patch == []


@given(STATUSES, STATUSES, STATUSES)
def test_a_chain_of_clobbering_writes_never_loses_a_generation(first, second, third):
    """Whatever is stored after one mended write is what the next is mended by."""
    stored = first
    for status in (second, third):
        asked = make_review(new={"status": status}, old={"status": stored}, subresource="status")
        after = ask(asked, make_dependencies()).object["status"]
        if not cleared(stored.get("observedGeneration")) and generation(
            stored["observedGeneration"]
        ):
            assert not cleared(after.get("observedGeneration"))
        stored = after
