"""What is known of an object's past changes the answer: intent flips it, time condemns it."""

from typing import Any

from genguard.status.evaluate import evaluate
from genguard.status.view import Past
from tests.cases_loader import table
from tests.statuses import NOW, changed


def past(given: dict[str, Any]) -> Past:
    observed = None if given.get("observed") is None else NOW - given["observed"]
    reconciled = given.get("reconciled", 2)
    return Past(NOW - given["intent"], observed, reconciled, given.get("flips", 0))


@table("status/past.yaml", "of", "past", "with", "is", "reasons")
def test_the_past_of_an_object_changes_the_answer(case):
    known = past(case["past"]) if "past" in case.values else None
    view = evaluate(changed(case["of"], case.get("with", {})), known, at=NOW)
    assert {key: getattr(view, key) for key in case["is"]} == case["is"], case.because
    if "reasons" in case.values:
        assert [str(reason) for reason in view.reasons] == case["reasons"]


def test_a_condition_that_tells_the_generation_of_now_is_an_observation():
    document = changed("Widget", without=["status.observedGeneration"])
    assert evaluate(document, past({"intent": 1}), at=NOW).ready is True
