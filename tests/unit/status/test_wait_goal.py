"""When a wait is over, well or badly, and what it says until then."""

from typing import Any

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
from tests.unit.status.test_targets import DEPLOYMENTS, PODS

GOOD = {"type": "Available", "status": "True"}
DEADLINE = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}


def web(
    available=2, generation=3, observed=3, *conditions: dict[str, str], **metadata
) -> dict[str, Any]:
    counts = dict.fromkeys(("replicas", "updatedReplicas"), 2)
    counts |= dict.fromkeys(("readyReplicas", "availableReplicas"), available)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "uid": "web", "generation": generation, **metadata},
        "spec": {"replicas": 2},
        "status": {"observedGeneration": observed, "conditions": [GOOD, *conditions], **counts},
    }


def job(**conditions):
    found = [{"type": key, "status": value} for key, value in conditions.items()]
    metadata = {"name": "once", "uid": "once", "generation": 1}
    return {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": metadata,
        "status": {"conditions": found},
    }  # fmt: skip


def widget(**conditions):
    return job(**conditions) | {"apiVersion": "example.org/v1", "kind": "Widget"}


LINGERING = web() | {"status": web()["status"] | {"terminatingReplicas": 1}}


def judged(document, *goals: str, began_at=None):
    (node,) = build_trees([document], at=0.0)
    return measure_progress(node, [parse_goal(one) for one in goals], began_at)


@pytest.mark.parametrize(
    ("document", "goal", "began_at", "state"),
    [
        (web(), "ready", 3, WaitState.REACHED),
        (web(), "settled", 3, WaitState.REACHED),
        (web(), "health=green", 3, WaitState.REACHED),
        (web(), "reconciled", 3, WaitState.REACHED),
        (web(), "reconciled=3", 3, WaitState.REACHED),
        (web(), "reconciled=2", 3, WaitState.REACHED),
        (web(), "reconciled=4", 3, WaitState.WAITING),
        (web(1), "ready", 3, WaitState.WAITING),
        (web(1), "health=green", 3, WaitState.WAITING),
        (web(2, 4, 3), "ready", 3, WaitState.WAITING),
        (web(2, 4, 3), "reconciled", 3, WaitState.WAITING),
        (LINGERING, "ready", 3, WaitState.REACHED),
        (LINGERING, "settled", 3, WaitState.WAITING),
        (LINGERING, "reconciled=3", 3, WaitState.WAITING),
        (web(1, 3, 3, DEADLINE), "ready", 3, WaitState.FAILED),
        (web(1, 4, 3, DEADLINE), "ready", 3, WaitState.WAITING),
        (web(deletionTimestamp="2026-01-01T00:00:00Z"), "settled", 3, WaitState.FAILED),
        (job(), "ready", 1, WaitState.WAITING),
        (job(Complete="True"), "ready", 1, WaitState.REACHED),
        (job(Failed="True"), "ready", 1, WaitState.FAILED),
        (job(Failed="True"), "settled", 1, WaitState.FAILED),
        (widget(Ready="True"), "ready", 1, WaitState.REACHED),
        (widget(Ready="False"), "ready", 1, WaitState.WAITING),
        (widget(Stalled="True"), "ready", 1, WaitState.FAILED),
        (widget(Ready="False", Failed="True"), "ready", 1, WaitState.FAILED),
    ],
)  # fmt: skip
def test_how_far_an_object_is(document, goal, began_at, state):
    assert judged(document, goal, began_at=began_at).state is state


def test_kinds_without_a_generation_are_reconciled_when_they_are_settled():
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
    assert judged(settings, "reconciled").state is WaitState.REACHED


@pytest.mark.parametrize(
    ("document", "goals", "why"),
    [
        (web(1), ["ready"], "status.readyReplicas 1, want 2 (+1 more)"),
        (web(2, 4, 3), ["ready"], "status.observedGeneration 3, want 4"),
        (web(), ["ready", "reconciled=9"], "metadata.generation 3, want 9"),
        (LINGERING, ["ready", "settled"], "status.terminatingReplicas 1, want 0"),
        (job(Failed="True"), ["ready"], "status.conditions[Failed] True, want False"),
    ],
)
def test_it_says_what_is_in_the_way(document, goals, why):
    assert judged(document, *goals).why == why


@pytest.mark.parametrize(
    "text", ["", "done", "reconciled=", "reconciled=-1", "health=Green", "x=y"]
)
def test_what_cannot_be_waited_for_is_refused_with_what_can(text):
    with pytest.raises(BadGoalError, match="give ready, settled, reconciled, health=green"):
        parse_goal(text)


def member(document, **labels):
    return document | {"metadata": document["metadata"] | {"labels": labels, "namespace": "n"}}


APPLICATION = {
    "apiVersion": "app.k8s.io/v1beta1", "kind": "Application",
    "metadata": {"name": "shop", "uid": "shop", "namespace": "n"},
    "spec": {"selector": {"matchLabels": {"app": "shop"}},
             "componentKinds": [{"group": "batch", "kind": "Job"}]},
}  # fmt: skip


def test_of_an_application_a_member_that_failed_counts():
    (node,) = build_trees([APPLICATION, member(job(Failed="True"), app="shop")], {"shop"}, at=0.0)
    found = measure_progress(node, [parse_goal("ready")], None)
    assert found.state is WaitState.FAILED
    assert found.why == "Job/once: status.conditions[Failed] True, want False"


def test_of_an_application_whose_members_go_on_nothing_has_failed():
    (node,) = build_trees([APPLICATION, member(job(), app="shop")], {"shop"}, at=0.0)
    assert measure_progress(node, [parse_goal("ready")], None).state is WaitState.WAITING


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


def condition(status="True", **more):
    return {"type": "Synced", "status": status, **more}


@pytest.mark.parametrize(
    ("conditions", "goal", "why"),
    [
        # As kubectl compares: pkg/cmd/wait/condition.go:checkCondition.
        ([condition()], "condition=Synced", None),
        ([condition()], "condition=synced=true", None),
        ([condition("False")], "condition=Synced=False", None),
        ([condition(observedGeneration=3)], "condition=Synced", None),
        ([], "condition=Synced", "status.conditions[Synced] absent, want true"),
        (
            [condition("Unknown")],
            "condition=Synced=True",
            "status.conditions[Synced] Unknown, want True",
        ),
        (
            [condition(observedGeneration=2)],
            "condition=Synced",
            "status.conditions[Synced] is of generation 2, want 3",
        ),
    ],
)
def test_a_condition_is_reached_as_for_kubectl(conditions, goal, why):
    found = judged(web(2, 3, 3, *conditions), goal)
    assert found.why == (why or "")
    assert found.state is (WaitState.WAITING if why else WaitState.REACHED)


def test_a_condition_of_an_old_status_does_not_count():
    found = judged(web(2, 3, 2, condition()), "condition=Synced")
    assert found.why == "status.conditions[Synced] is of generation 2, want 3"


def test_a_failure_does_not_end_the_wait_for_a_condition():
    assert judged(job(Failed="True"), "condition=failed").state is WaitState.REACHED
    assert judged(job(Failed="True"), "condition=complete").state is WaitState.WAITING


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


@pytest.mark.parametrize("goal", ["condition", "condition="])
def test_a_condition_needs_its_type(goal):
    with pytest.raises(BadGoalError, match="condition=TYPE"):
        parse_goal(goal)


@pytest.mark.parametrize(
    ("conditions", "goal", "why"),
    [
        ({"TrafficReady": "True"}, "traffic-ready", ""),
        ({"TrafficReady": "False"}, "traffic-ready", "TrafficReady is False"),
        ({}, "traffic-ready", "TrafficReady is not set for this generation"),
        ({"ApplicationQualified": "True"}, "qualified", ""),
        (
            {"TrafficReady": "True"},
            "qualified",
            "ApplicationQualified is not set for this generation",
        ),
    ],
)
def test_what_external_probes_say_can_be_waited_for(conditions, goal, why):
    progress = judged(widget(Ready="True", **conditions), "ready", goal)
    expected = WaitState.WAITING if why else WaitState.REACHED
    assert (progress.state, progress.why) == (expected, why)
