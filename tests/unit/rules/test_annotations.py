"""What the audit log is told, word by word: people search for it."""

import pytest

from genguard.generation.prediction import Cause, Prediction
from genguard.patch.operations import Edit
from genguard.rules.annotations import MOST_SHOWN, Repair, annotations

STAYS = Prediction(3, 0, Cause.NOTHING_COUNTED)
MOVES = Prediction(4, 1, Cause.SPEC_CHANGED)


def put_back(count: int) -> Repair:
    places = (("status", "conditions", n, "observedGeneration") for n in range(count))
    return Repair("preserve-observed-generation", tuple(Edit(place, 4) for place in places))


@pytest.mark.parametrize(
    ("prediction", "told"),
    [
        (STAYS, {}),
        (MOVES, {"generation": "4 spec-changed"}),
        (Prediction(None, 1, Cause.REPLICAS_CHANGED), {"generation": "moves replicas-changed"}),
        (Prediction(None, None, Cause.NO_OBJECT), {}),
        (
            Prediction(None, None, Cause.UNKNOWN_STATUS_SUBRESOURCE),
            {"generation": "unknown: whether status is a subresource is not known"},
        ),
    ],
)
def test_generation_is_told_when_it_moves_or_when_nobody_knows(prediction, told):
    assert annotations(prediction, (), audit_only=False) == told


@pytest.mark.parametrize(("audit_only", "word"), [(False, "set"), (True, "would set")])
def test_each_rule_names_its_places(audit_only, word):
    repairs = (put_back(2), Repair("assign-generation", (Edit(("metadata", "generation"), 4),)))
    assert annotations(MOVES, repairs, audit_only=audit_only) == {
        "generation": "4 spec-changed",
        "preserve-observed-generation": f"{word} status.conditions.0.observedGeneration=4 "
        "status.conditions.1.observedGeneration=4",
        "assign-generation": f"{word} metadata.generation=4",
    }


@pytest.mark.parametrize(("count", "more"), [(MOST_SHOWN, ""), (MOST_SHOWN + 1, " and 1 more")])
def test_of_many_places_the_first_are_named(count, more):
    (told,) = annotations(STAYS, (put_back(count),), audit_only=False).values()
    named = " ".join(f"status.conditions.{n}.observedGeneration=4" for n in range(MOST_SHOWN))
    assert told == f"set {named}{more}"
