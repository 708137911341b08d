"""When a wait is over, well or badly, and what it says until then."""

import pytest

from genguard.status.evaluate import FLAPPING_FLIPS
from genguard.status.targets import WatchTarget
from genguard.status.trees import build_trees
from genguard.status.view import Past
from genguard.status.wait_goal import (
    BadGoalError,
    WaitProgress,
    WaitState,
    WaitTracker,
    measure_progress,
    parse_goal,
    parse_goals,
)
from tests.cases_loader import table
from tests.unit.status.test_targets import DEPLOYMENTS, PODS


def web(available=2, generation=3, observed=3, conditions=(), terminating=0, **metadata):
    counts = dict.fromkeys(("replicas", "updatedReplicas"), 2)
    counts |= dict.fromkeys(("readyReplicas", "availableReplicas"), available)
    good = {"type": "Available", "status": "True"}
    if metadata.pop("deleted", False):
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "uid": "web", "generation": generation, **metadata},
        "spec": {"replicas": 2},
        "status": {
            "observedGeneration": observed, "conditions": [good, *conditions],
            "terminatingReplicas": terminating, **counts,
        },
    }  # fmt: skip


def job(**conditions):
    found = [{"type": key, "status": value} for key, value in conditions.items()]
    metadata = {"name": "once", "uid": "once", "generation": 1}
    return {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": metadata,
        "status": {"conditions": found},
    }  # fmt: skip


def widget(**conditions):
    return job(**conditions) | {"apiVersion": "example.org/v1", "kind": "Widget"}


MADE = {"web": web, "job": job, "widget": widget}


def evaluated(document, *goals: str, began_at=None):
    (node,) = build_trees([document], at=0.0)
    return measure_progress(node, [parse_goal(one) for one in goals], began_at)


@table("status/wait.yaml", *MADE, "goals", "began_at", "state", "why")
def test_how_far_an_object_is_and_what_is_in_the_way(case):
    (document,) = (make(**case[name]) for name, make in MADE.items() if name in case.values)
    found = evaluated(document, *case["goals"], began_at=case.get("began_at"))
    assert (found.state.value, found.why) == (case["state"], case.get("why", "")), case.because


def test_kinds_without_a_generation_are_reconciled_when_they_are_settled():
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
    assert evaluated(settings, "reconciled").state is WaitState.REACHED


@pytest.mark.parametrize(
    "text",
    ["", "done", "reconciled=", "reconciled=-1", "health=Green", "x=y", "condition", "condition="],
)
def test_what_cannot_be_waited_for_is_refused_with_what_can(text):
    with pytest.raises(BadGoalError, match="give ready, settled, reconciled, health=green"):
        parse_goal(text)


def test_what_keeps_health_from_green_and_blocks_nothing_is_told():
    (node,) = build_trees([web()], past=lambda _: Past(0.0, 0.0, 3, FLAPPING_FLIPS), at=0.0)
    found = measure_progress(node, [parse_goal("health=green")], 3)
    assert found[1:3] == (
        WaitState.WAITING,
        f"Ready {FLAPPING_FLIPS}: changes within 10 minutes: flapping",
    )


def test_a_standing_says_why_only_while_there_is_a_reason():
    assert str(WaitProgress("Pod/a", WaitState.REACHED)) == "Pod/a"
    assert str(WaitProgress("Pod/a", WaitState.FAILED, "it is gone")) == "Pod/a: it is gone"


NAMED = WatchTarget(DEPLOYMENTS, "n", "web")
SELECTED = WatchTarget(PODS, "n", "", "app=web")


def tracker(goal, *wanted: WatchTarget):
    return WaitTracker(wanted, [parse_goal(goal)])


def take(found, documents, there):
    uids = {one["metadata"]["uid"] for one in documents}
    return [
        (one.name, one.state, one.why)
        for one in found.update(build_trees(documents, uids, at=0.0), there)
    ]


def test_what_does_not_exist_yet_is_waited_for_and_what_is_deleted_has_failed():
    found = tracker("ready", NAMED)
    name = "deployments.apps/web in namespace n"
    assert take(found, [], {NAMED: frozenset()}) == [
        (name, WaitState.WAITING, "it does not exist yet")
    ]
    assert take(found, [web()], {NAMED: frozenset({"web"})}) == [
        ("Deployment/web", WaitState.REACHED, "")
    ]
    assert take(found, [], {NAMED: frozenset()}) == [(name, WaitState.FAILED, "it was deleted")]


def test_plain_reconciled_is_the_generation_at_which_the_wait_began():
    found = tracker("reconciled", NAMED)
    there = {NAMED: frozenset({"web"})}
    states = [
        take(found, [web(2, generation, observed)], there)[0][1]
        for generation, observed in ((3, 2), (4, 3), (4, 4))
    ]
    assert states == [WaitState.WAITING, WaitState.WAITING, WaitState.REACHED]
    back = take(found, [web(2, 2, 2)], there)
    assert back == [("Deployment/web", WaitState.WAITING, "metadata.generation 2, want 3")]


def test_a_selector_that_matches_nothing_yet_is_waited_for_but_not_beside_others():
    nothing = {SELECTED: frozenset[str]()}
    assert take(tracker("ready", SELECTED), [], nothing) == [
        ("pods in namespace n", WaitState.WAITING, "no object matches yet")
    ]
    both = nothing | {NAMED: frozenset({"web"})}
    assert take(tracker("ready", SELECTED, NAMED), [web()], both) == [
        ("Deployment/web", WaitState.REACHED, "")
    ]


def removed(tracker, document, uids):
    return tracker.update(build_trees([document], at=0.0), {WEB: frozenset(uids)})


WEB = WatchTarget(DEPLOYMENTS, "n", "web")


def test_a_deletion_is_reached_when_the_first_objects_are_gone_whatever_comes_after_them():
    tracker = WaitTracker([WEB], parse_goals(["delete"]))
    (one,) = removed(tracker, web(), ["web"])
    assert one.state is WaitState.WAITING
    assert one.why == "metadata.deletionTimestamp absent: nobody has deleted it"
    held = web(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["example.org/keep"])
    assert removed(tracker, held, ["web"])[0].why == "metadata.finalizers example.org/keep"
    again = web(uid="another")
    assert [one.state for one in removed(tracker, again, ["another"])] == [WaitState.REACHED]


def test_what_does_not_exist_is_deleted():
    tracker = WaitTracker([WEB], parse_goals(["delete"]))
    assert [one.state for one in tracker.update([], {WEB: frozenset()})] == [WaitState.REACHED]


@pytest.mark.parametrize("goals", [["delete", "ready"], ["delete", "delete"]])
def test_delete_is_a_goal_of_its_own(goals):
    with pytest.raises(BadGoalError, match="delete is a goal of its own"):
        parse_goals(goals)
