"""What is known of an object's past changes the answer: intent flips it, time condemns it."""

from typing import Any

import pytest

from genguard.status.evaluate import DEFAULT_DEADLINE, FLAPPING_FLIPS, GRACE_SECONDS, evaluate
from genguard.status.view import Health, Past, StatusView
from tests.statuses import NOW, changed


def judged(of: str, past: Past | None, **with_: Any) -> StatusView:
    return evaluate(
        changed(of, {path.replace("__", "."): v for path, v in with_.items()}), past, at=NOW
    )


def past(**changes: Any) -> Past:
    values = {"intent_since": NOW - 1, "observed_since": None, "reconciled_generation": 2}
    return Past(**{**values, "ready_flips": 0, **changes})


def test_a_changed_intent_that_nobody_observed_makes_ready_unknown_at_once():
    view = judged("Deployment", past(), metadata__generation=4)
    assert (view.ready, view.settled, view.health) == (None, False, Health.YELLOW)
    assert [str(reason) for reason in view.reasons] == ["status.observedGeneration 3, want 4"]
    assert view.reconciled_generation == 2


def test_without_a_past_the_same_object_is_just_not_ready():
    assert judged("Deployment", None, metadata__generation=4).ready is False


def test_an_intent_that_status_speaks_of_is_known_whoever_saw_it():
    view = judged("Deployment", past())
    assert (view.ready, view.settled, view.reconciled_generation) == (True, True, 3)


def test_a_controller_that_observed_it_once_has_taken_it_back():
    view = judged("Deployment", past(observed_since=NOW), metadata__generation=4)
    assert view.ready is False


@pytest.mark.parametrize("of", ["Job", "Ingress"])
def test_a_kind_without_observed_generation_is_given_some_seconds_to_act(of: str):
    view = judged(of, past())
    assert (view.ready, view.settled) == (None, False)
    assert str(view.reasons[0]).startswith("metadata.generation 1, want a newer status")
    assert judged(of, past(intent_since=NOW - GRACE_SECONDS)).ready is True
    assert judged(of, past(observed_since=NOW)).ready is True


@pytest.mark.parametrize("of", ["ConfigMap", "CronJob", "Service"])
def test_what_nobody_observes_is_never_unknown(of: str):
    assert judged(of, past()).ready is True


def test_a_condition_that_tells_the_generation_of_now_is_an_observation():
    document = changed("Widget", without=["status.observedGeneration"])
    assert evaluate(document, past(), at=NOW).ready is True


def test_an_intent_that_nobody_observes_for_too_long_is_red_and_still_unknown():
    late = past(intent_since=NOW - DEFAULT_DEADLINE - 1)
    view = judged("Deployment", late, metadata__generation=4)
    assert (view.ready, view.health, view.failed) == (None, Health.RED, False)
    in_time = past(intent_since=NOW - DEFAULT_DEADLINE)
    assert judged("Deployment", in_time, metadata__generation=4).health is Health.YELLOW


def test_replicas_of_which_none_is_there_long_after_the_intent_are_red():
    late = past(intent_since=NOW - DEFAULT_DEADLINE - 1, observed_since=NOW)
    none = {"status__readyReplicas": 0, "status__availableReplicas": 0}
    assert judged("StatefulSet", late, **none).health is Health.RED
    assert judged("StatefulSet", past(observed_since=NOW), **none).health is Health.YELLOW
    assert judged("StatefulSet", late, status__readyReplicas=1).health is Health.YELLOW


@pytest.mark.parametrize(
    ("policy", "health"),
    [("TerminationComplete", Health.YELLOW), ("TerminationStarted", Health.RED)],
)
def test_updated_pods_may_come_late_while_they_wait_for_old_ones(policy: str, health: Health):
    """Two of three pods serve, of the old template: the third may start when one has stopped."""
    late = past(intent_since=NOW - DEFAULT_DEADLINE - 20, observed_since=NOW)
    with_ = {
        "spec__podReplacementPolicy": policy,
        "spec__strategy": {"rollingUpdate": {"maxSurge": 0}},
        "status__replicas": 2,
        "status__updatedReplicas": 0,
        "status__terminatingReplicas": 1,
    }
    assert judged("Deployment", late, **with_).health is health
    over = past(intent_since=NOW - DEFAULT_DEADLINE - 31, observed_since=NOW)
    assert judged("Deployment", over, **with_).health is Health.RED


def test_a_job_may_run_for_long_before_its_first_pod_succeeds():
    late = past(intent_since=NOW - DEFAULT_DEADLINE - 1, observed_since=NOW)
    assert judged("Job", late, status={"active": 1}).health is Health.YELLOW


def test_flapping_is_yellow_with_the_count_and_blocks_nothing():
    view = judged("Deployment", past(observed_since=NOW, ready_flips=FLAPPING_FLIPS))
    assert (view.ready, view.settled, view.health) == (True, True, Health.YELLOW)
    assert [str(reason) for reason in view.reasons] == [
        f"Ready {FLAPPING_FLIPS}: changes within 10 minutes: flapping"
    ]
    calm = judged("Deployment", past(observed_since=NOW, ready_flips=FLAPPING_FLIPS - 1))
    assert calm.health is Health.GREEN


def test_reconciled_generation_is_the_last_one_settled():
    behind = past(observed_since=NOW)
    assert judged("Deployment", behind, status__readyReplicas=1).reconciled_generation == 2
    assert judged("Deployment", behind).reconciled_generation == 3
    never = past(observed_since=NOW, reconciled_generation=None)
    assert judged("Deployment", never, status__readyReplicas=1).reconciled_generation is None


def test_what_is_being_deleted_is_not_ready_rather_than_unknown():
    view = judged("Deployment", past(), metadata__deletionTimestamp="2027-01-15T08:00:00Z")
    assert view.ready is False
