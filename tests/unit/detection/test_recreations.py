"""What is remembered of creations and deletions: bounded, shared, and without contents."""

from typing import Any

import pytest

from genguard.detection.detection import Detection
from genguard.detection.observation import decode_observation, encode_observation
from tests.reviews import make_review
from tests.unit.detection.builders import INTENT, MUTATE, OUTCOME, feed, reviewed, spec

CONTENT = "planted-value"


def life(
    operation: str, uid: str, user: str = "alice", name: str = "one", **more: Any
) -> dict[str, Any]:
    shown = {"metadata": {"uid": uid, **more.pop("metadata", {})}, **spec(a=CONTENT)}
    new, old = (shown, None) if operation == "CREATE" else (None, shown)
    return make_review(operation, more.pop("resource", "widgets"), new, old, name=name, user=user)


@pytest.mark.parametrize("operation", ["CREATE", "DELETE"])
def test_an_observation_of_a_life_is_shared_without_contents(operation):
    found = Detection().observe(OUTCOME, reviewed(life(operation, "u"), OUTCOME), 100.0)
    raw = encode_observation(found)
    assert decode_observation(raw) == found
    assert CONTENT.encode() not in raw


@pytest.mark.parametrize(
    ("asked", "because"),
    [
        (make_review("CREATE", "widgets", spec(a=1), None, dry_run=True), "a dry run"),
        (make_review("CREATE", "pods", spec(a=1), None, subresource="eviction"), "no object"),
        (make_review("DELETE", "widgets", None, None), "a collection, before its objects"),
        (life("CREATE", "u", user="x" * 5_000), "a name that no API server lets through"),
        (life("CREATE", "u", user="genguard"), "genguard's own"),
    ],
)
def test_of_what_is_no_life_there_is_no_observation(asked, because):
    detection = Detection(own_user="genguard")
    assert detection.observe(OUTCOME, reviewed(asked, OUTCOME), 100.0) is None, because


def test_owners_that_cannot_be_decoded_are_counted():
    metadata = {"generateName": "web-", "ownerReferences": [{"uid": 3}]}
    detection = Detection()
    asked = life("CREATE", "u", metadata=metadata)
    assert detection.observe(OUTCOME, reviewed(asked, OUTCOME), 100.0) is None
    assert detection.unreadable == 1


def test_a_built_in_kind_has_outcomes_where_another_one_has():
    detection = Detection()
    feed(detection, OUTCOME, life("CREATE", "u0", resource="services"), 0.0)
    for number in range(8):
        for phase in (INTENT, MUTATE):
            feed(detection, phase, life("CREATE", "", resource="configmaps"), 1.0 + number)
    # Of this outcome no intent was seen, so that others may see a part of the writes.
    assert detection.findings() == ()
    for phase in (INTENT, MUTATE, OUTCOME):
        for number in range(10):
            feed(detection, phase, life("CREATE", f"v{number}", resource="services"), 20.0)
    for number in range(8):
        for phase in (INTENT, MUTATE):
            feed(detection, phase, life("CREATE", "", resource="configmaps"), 30.0 + number)
    assert [one.detector for one in detection.findings()] == ["refused-retry"]
