"""Parents over children: AND, the worst, the leaf that blocks, and what was written off."""

from typing import Any

import pytest
from msgspec.structs import replace

from genguard.status.aggregate import MOST_LEAVES, aggregate, summarize
from genguard.status.evaluate import evaluate
from genguard.status.view import Health, Past, StatusView
from tests.statuses import NOW, changed

CRASHING = {
    "status.conditions[Ready]": {"status": "False", "reason": "ContainersNotReady"},
    "status.containerStatuses": [
        {"name": "web", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    ],
}
LEAVING = {"metadata.deletionTimestamp": "2027-01-15T08:00:00Z"}
REMOVED = (
    "Pod/leaving › metadata.deletionTimestamp set, want gone: "
    "it waits for the API server to remove it"
)
"""Of a pod that no node runs."""
ENDED = {"status.phase": "Failed", "status.reason": "Evicted"}


def view(of: str, *children: StatusView, **with_: Any) -> StatusView:
    return evaluate(changed(of, with_), None, children, at=NOW)


def pod(name: str = "web-7d4-x", **with_: Any) -> StatusView:
    return view("Pod", **{"metadata.name": name, **with_})


def texts(of: StatusView) -> list[str]:
    return [str(reason) for reason in of.reasons]


def test_a_parent_of_good_children_is_good():
    whole = view("Deployment", view("ReplicaSet", pod(), pod()))
    assert (whole.ready, whole.settled, whole.health) == (True, True, Health.GREEN)
    assert texts(whole) == []


def test_the_leaf_that_blocks_is_named_by_its_whole_path():
    short = {"status.readyReplicas": 2, "status.availableReplicas": 2}
    whole = view("Deployment", view("ReplicaSet", pod(), pod(**CRASHING), **short), **short)
    assert (whole.ready, whole.settled, whole.health) == (False, False, Health.RED)
    leaf = "ReplicaSet/web-7d4 › Pod/web-7d4-x › "
    assert texts(whole) == [
        "status.readyReplicas 2, want 3",
        "status.availableReplicas 2, want 3",
        f"{leaf}status.containerStatuses[web].state.waiting CrashLoopBackOff, want running",
        f"{leaf}status.conditions[Ready] False, want True: ContainersNotReady",
    ]


def test_a_child_that_is_not_ready_makes_a_parent_that_says_ready_not_ready():
    whole = view("Widget", view("Deployment", **{"status.readyReplicas": 1}))
    assert (whole.ready, whole.settled, whole.health) == (False, False, Health.YELLOW)
    assert texts(whole) == ["Deployment/web › status.readyReplicas 1, want 3"]


def test_a_parent_is_no_longer_reconciled_at_a_generation_its_children_do_not_follow():
    children = [view("Deployment", **{"status.readyReplicas": 1})]
    past = Past(NOW - 60, NOW - 50, 2, 0)
    assert evaluate(changed("Widget"), past, children, at=NOW).reconciled_generation == 2
    assert evaluate(changed("Widget"), None, children, at=NOW).reconciled_generation is None


def test_a_child_that_is_unknown_makes_the_parent_unknown_unless_another_is_not_ready():
    past = Past(NOW - 1, None, None, 0)
    unknown = evaluate(changed("Deployment", {"metadata.generation": 4}), past, at=NOW)
    assert view("Widget", unknown).ready is None
    assert view("Widget", unknown, view("Deployment", **{"status.readyReplicas": 1})).ready is False


def test_old_replica_sets_at_zero_do_not_drag():
    old = view("ReplicaSet", **{"spec.replicas": 0, "status": {"observedGeneration": 1}})
    whole = view("Deployment", old, view("ReplicaSet", pod()))
    assert (whole.ready, whole.settled, whole.health) == (True, True, Health.GREEN)


def test_pods_that_ended_are_written_off_by_a_controller_that_replaces_them():
    whole = view("ReplicaSet", pod(), pod("evicted", **ENDED))
    assert (whole.ready, whole.settled, whole.health) == (True, True, Health.GREEN)
    assert whole.terminating_replicas == 0


def test_a_failed_pod_under_a_controller_that_nobody_knows_drags():
    whole = view("Widget", pod("alone", **ENDED))
    assert (whole.ready, whole.health) == (False, Health.RED)
    assert texts(whole) == ["Pod/alone › status.phase Failed, want Running or Succeeded: Evicted"]


def test_a_pod_that_leaves_drags_settled_and_not_ready():
    whole = view("Deployment", view("ReplicaSet", pod(), pod("leaving", **LEAVING)))
    assert (whole.ready, whole.settled, whole.health) == (True, False, Health.YELLOW)
    assert whole.terminating_replicas == 1
    assert texts(whole) == [
        "status.terminatingReplicas absent, want 0: 1 counted from pods",
        f"ReplicaSet/web-7d4 › {REMOVED}",
    ]


def test_pods_that_leave_are_counted_below_an_old_replica_set_too():
    at_zero = {"spec.replicas": 0, "status": {"observedGeneration": 1}}
    old = view("ReplicaSet", pod("leaving", **LEAVING), **at_zero)
    whole = view("Deployment", old, view("ReplicaSet", pod()))
    assert (whole.ready, whole.settled, whole.terminating_replicas) == (True, False, 1)


def test_a_leaving_pod_that_has_ended_is_none_of_the_terminating():
    for phase in ("Failed", "Succeeded"):
        ended = pod("ended", **LEAVING, **{"status.phase": phase})
        whole = view("ReplicaSet", pod(), ended)
        assert (whole.settled, whole.terminating_replicas) == (True, 0)


def test_status_says_how_many_leave_unless_pods_show_more():
    whole = view("ReplicaSet", pod("a", **LEAVING), **{"status.terminatingReplicas": 1})
    assert whole.terminating_replicas == 1
    skewed = view("ReplicaSet", pod("a", **LEAVING), **{"status.terminatingReplicas": 0})
    assert (skewed.terminating_replicas, skewed.settled) == (0, False)
    assert "status.terminatingReplicas 0, want 0: 1 counted from pods" in texts(skewed)


def test_where_no_pod_is_given_nothing_is_said_of_terminating_ones():
    assert view("Deployment", view("ReplicaSet")).terminating_replicas is None


def test_retried_pods_do_not_drag_a_job_that_completed():
    whole = view("Job", pod("first", **ENDED), pod("second", **{"status.phase": "Succeeded"}))
    assert (whole.ready, whole.settled, whole.health) == (True, True, Health.GREEN)


def test_a_running_job_is_not_red_for_a_pod_it_retries():
    whole = view("Job", pod("first", **ENDED), pod("second"), status={"active": 1})
    assert (whole.ready, whole.settled, whole.health) == (False, False, Health.YELLOW)


def test_a_cron_job_goes_on_whatever_becomes_of_its_jobs():
    running = view("Job", status={"active": 1})
    assert view("CronJob", running).health is Health.GREEN
    failed = view(
        "Job", status={"conditions": [{"type": "Failed", "status": "True", "reason": "Late"}]}
    )
    whole = view("CronJob", running, failed)
    assert (whole.ready, whole.settled, whole.health) == (True, True, Health.YELLOW)
    assert texts(whole) == ["Job/import › status.conditions[Failed] True, want False: Late"]


def test_of_many_leaves_the_first_are_named_and_the_rest_counted():
    whole = view("Widget", *[pod(f"p{n}", **CRASHING) for n in range(MOST_LEAVES + 3)])
    named = [text for text in texts(whole) if "CrashLoopBackOff" in text]
    assert len(named) == MOST_LEAVES
    assert texts(whole)[-1] == "objects 3: more objects that block"


def test_aggregating_twice_changes_nothing():
    children = [pod(**CRASHING), pod("leaving", **LEAVING)]
    once = view("ReplicaSet", *children)
    assert aggregate(once, children) == once


def test_without_children_a_parent_speaks_for_itself():
    alone = view("Deployment")
    assert aggregate(alone, []) is alone


def test_a_child_that_leaves_keeps_a_good_parent_from_green_and_from_settled_alone():
    whole = view("Widget", pod(), pod("leaving", **LEAVING))
    assert (whole.ready, whole.settled, whole.health) == (True, False, Health.YELLOW)
    assert texts(whole) == [REMOVED]


def test_a_set_is_as_good_as_its_worst():
    summary = summarize([view("Deployment"), pod("bad", **CRASHING), view("ConfigMap")])
    assert (summary.ready, summary.settled, summary.health) == (False, False, Health.RED)
    assert (summary.total, summary.healths, summary.progress) == (3, (2, 0, 1), 1.0)
    assert str(summary.reasons[0]).startswith("Pod/bad › ")


def test_a_set_of_none_is_good_and_counts_nothing():
    summary = summarize([])
    assert (summary.ready, summary.settled, summary.health) == (True, True, Health.GREEN)
    assert (summary.total, summary.progress, summary.reasons) == (0, None, ())


@pytest.mark.parametrize(
    ("own", "below", "answer"),
    [
        (None, [None, None], None),
        (None, [True, None], True),
        (None, [True, False], False),
        (False, [True], False),
        (True, [None], True),
    ],
)
def test_what_probes_say_counts_of_those_objects_of_which_they_say_anything(own, below, answer):
    def probed(traffic: bool | None) -> StatusView:
        return replace(pod(), traffic_ready=traffic)

    owner = replace(view("ReplicaSet"), traffic_ready=own)
    whole = aggregate(owner, [probed(one) for one in below])
    assert whole.traffic_ready is answer
    assert whole.application_qualified is None
