"""Rules and answers at their limits: what is refused, what is bounded, what wins."""

import pytest

from genguard.admission.review import Phase
from tests.reviews import ask, changes, make_dependencies, make_review


def status(new, old, **arguments):
    return make_review(new={"status": new}, old={"status": old}, subresource="status", **arguments)


def test_the_intent_wins_over_what_was_stored():
    """Both rules would act on the place; the requester's own value is the newer one."""
    dependencies = make_dependencies()
    ask(status({"observedGeneration": 5}, {"observedGeneration": 4}), dependencies,
        phase=Phase.INTENT)  # fmt: skip
    answer = ask(status({}, {"observedGeneration": 4}), dependencies)
    assert changes(answer) == {"/status/observedGeneration": 5}
    assert answer.annotations == {"restore-intent": "set status.observedGeneration=5"}


def test_an_annotation_names_twenty_edits_and_counts_the_rest():
    many = [{"type": f"T{number}", "observedGeneration": 3} for number in range(500)]
    cleared = [{"type": one["type"]} for one in many]
    answer = ask(status({"conditions": cleared}, {"conditions": many}))
    assert len(answer.patch) == 500
    (told,) = answer.annotations.values()
    assert told.endswith(" and 480 more")
    assert len(told) < 2_000


def test_conditions_beyond_all_measure_are_left_alone():
    many = [{"type": "A", "observedGeneration": 3}] * 1_001
    answer = ask(status({"conditions": [{"type": "A"}] * 1_001}, {"conditions": many}))
    assert answer.patch == []


def test_long_names_of_conditions_are_not_remembered_and_the_value_beside_them_is():
    dependencies = make_dependencies()
    long = {
        "observedGeneration": 5,
        "conditions": [{"type": "n" * 20_000, "observedGeneration": 5}],
    }
    ask(status(long, {}), dependencies, phase=Phase.INTENT)
    answer = ask(status({}, {"conditions": [{"type": "n" * 20_000}]}), dependencies)
    assert answer.patch == [{"op": "add", "path": "/status/observedGeneration", "value": 5}]


@pytest.mark.parametrize("containers", [5, "ab", [5], ["a"], {"a": 1}, [None], True])
def test_a_resize_of_what_is_no_pod_is_still_answered(containers):
    asked = make_review(
        resource="pods",
        subresource="resize",
        new={"spec": {"containers": containers}},
        old={"spec": {"containers": [{"name": "a"}]}},
    )
    assert ask(asked).result.prediction.step == 1
