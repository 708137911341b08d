"""What is remembered of creations and deletions: bounded, shared, and without contents."""

from typing import Any

import pytest

from genguard.admission.review import Phase
from genguard.detection.detection import Detection
from genguard.detection.fact import decode_fact, encode_fact
from genguard.detection.finding import Severity
from tests.reviews import make_review
from tests.unit.detection.builders import (
    INTENT,
    MUTATE,
    OUTCOME,
    feed,
    reviewed,
    see,
    spec,
    status,
    update,
)

CONTENT = "planted-value"


def life(
    operation: str, uid: str, user: str = "alice", name: str = "one", **more: Any
) -> dict[str, Any]:
    shown = {"metadata": {"uid": uid, **more.pop("metadata", {})}, **spec(a=CONTENT)}
    new, old = (shown, None) if operation == "CREATE" else (None, shown)
    return make_review(operation, more.pop("resource", "widgets"), new, old, name=name, user=user)


@pytest.mark.parametrize("operation", ["CREATE", "DELETE"])
def test_a_fact_of_a_life_is_shared_without_contents(operation):
    found = Detection().fact(OUTCOME, reviewed(life(operation, "u"), OUTCOME), 100.0)
    raw = encode_fact(found)
    assert decode_fact(raw) == found
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
def test_of_what_is_no_life_there_is_no_fact(asked, because):
    detection = Detection(own_user="genguard")
    assert detection.fact(OUTCOME, reviewed(asked, OUTCOME), 100.0) is None, because


def test_owners_that_cannot_be_decoded_are_counted():
    metadata = {"generateName": "web-", "ownerReferences": [{"uid": 3}]}
    detection = Detection()
    asked = life("CREATE", "u", metadata=metadata)
    assert detection.fact(OUTCOME, reviewed(asked, OUTCOME), 100.0) is None
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


def test_where_updates_lack_phases_none_counts_as_refused():
    detection = Detection()
    asked = update(spec(a=2), spec(a=1), resource="widgets")
    feed(detection, INTENT, asked, 0.0)
    feed(detection, MUTATE, asked, 0.0)
    for number in range(5):  # of each of these one phase went to another replica
        feed(detection, OUTCOME, update(spec(a=3), spec(a=1), str(number), resource="widgets"), 0.1)
    for number in range(9):
        for phase in (INTENT, MUTATE):
            feed(detection, phase, asked, 1.0 + number)
    detection.finish(30.0)
    assert [one for one in detection.findings() if one.detector == "refused-retry"] == []


def see_life(seen: Detection, now: float, user: str, phases: tuple[Phase, ...], **asked: Any):
    """A creation or deletion of a Pod that a ReplicaSet owns; or of another resource."""
    owners = [{"uid": "rs1", "controller": True}]
    metadata = {"generateName": "web-", "ownerReferences": owners}
    for phase in phases:
        shown = life(
            asked.get("operation", "CREATE"),
            asked.get("uid", f"u{now}"),
            user,
            resource=asked.get("resource", "pods"),
            metadata=metadata,
        )
        see(seen, phase, reviewed(shown, phase), now)


def warnings(seen: Detection) -> list[str]:
    return [one.detector for one in seen.findings() if one.severity is not Severity.INFO]


@pytest.mark.parametrize(("writer", "found"), [("drainer", []), ("kubelet", ["recreation"])])
def test_who_drains_node_after_node_is_in_no_loop_with_a_controller(writer, found):
    seen = Detection()
    for turn in range(8):
        now = 10.0 * turn
        see_life(seen, now, "controller", (OUTCOME,), uid=f"u{turn}")
        for phase in (INTENT, MUTATE, OUTCOME):
            new, old = spec(a=turn + 1), spec(a=turn)
            cordoned = update(new, old, str(turn + 1), resource="nodes", user=writer)
            see(seen, phase, reviewed(cordoned, phase), now + 1)
        see_life(seen, now + 2, "drainer", (OUTCOME,), uid=f"u{turn}", operation="DELETE")
    assert warnings(seen) == found


@pytest.mark.parametrize(("writes", "found"), [(True, []), (False, ["refused-retry"])])
def test_where_updates_have_no_outcome_a_creation_without_one_is_not_refused(writes, found):
    seen = Detection()
    see_life(seen, 0.0, "deployer", (INTENT, MUTATE, OUTCOME), resource="configmaps")
    for turn in range(1, 9):
        if writes and turn == 1:
            asked = update(spec(a=2), spec(a=1), resource="pods")
            for phase in (INTENT, MUTATE):
                see(seen, phase, reviewed(asked, phase), 0.5)
        see_life(seen, float(turn), "controller", (INTENT, MUTATE))
    assert warnings(seen) == found


@pytest.mark.parametrize(
    ("resource", "user", "found"),
    [
        ("deployments", "controller", []),
        ("pods", "controller", ["refused-retry"]),
        ("nodes", "system:node:n1", ["refused-retry"]),
    ],
)
def test_pods_are_missed_only_where_a_kubelet_shows_them(resource, user, found):
    seen = Detection()
    for phase in (INTENT, MUTATE, OUTCOME):
        asked = update(status(a=2), status(a=1), resource=resource, user=user, subresource="status")
        see(seen, phase, reviewed(asked, phase), 0.0)
    for turn in range(10):
        see_life(seen, 0.1 * 2**turn, "controller", (INTENT, MUTATE, OUTCOME), uid=f"u{turn}")
    assert warnings(seen) == found
