"""Parents over children: AND, the worst, the leaf that blocks, and what was written off."""

from typing import Any

from msgspec.structs import replace

from genguard.status.aggregate import MOST_LEAVES, aggregate, summarize
from genguard.status.evaluate import evaluate
from genguard.status.view import Health, Past, StatusView
from tests.cases_loader import table
from tests.statuses import NOW, changed

CRASHING = {
    "status.conditions[Ready]": {"status": "False", "reason": "ContainersNotReady"},
    "status.containerStatuses": [
        {"name": "web", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    ],
}
LEAVING = {"metadata.deletionTimestamp": "2027-01-15T08:00:00Z"}


def view(of: str, *children: StatusView, **with_: Any) -> StatusView:
    return evaluate(changed(of, with_), None, children, at=NOW)


def pod(name: str = "web-7d4-x", **with_: Any) -> StatusView:
    return view("Pod", **{"metadata.name": name, **with_})


def texts(of: StatusView) -> list[str]:
    return [str(reason) for reason in of.reasons]


def built(tree: dict[str, Any]) -> StatusView:
    """What is said of the object at the top of a tree."""
    children = [built(one) for one in tree.get("children", ())]
    return view(tree["of"], *children, **tree.get("with", {}))


@table("status/parents.yaml", "tree", "expect")
def test_a_parent_is_what_its_children_make_of_it(case):
    whole, wanted = built(case["tree"]), dict(case["expect"])
    if "among" in wanted:
        assert wanted.pop("among") in texts(whole), case.because
    found = {
        "ready": whole.ready,
        "settled": whole.settled,
        "health": whole.health.value,
        "terminating": whole.terminating_replicas,
        "reasons": texts(whole),
    }
    assert {key: found[key] for key in wanted} == wanted, case.because


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


def test_of_many_leaves_the_first_are_named_and_the_rest_counted():
    whole = view("Widget", *[pod(f"p{n}", **CRASHING) for n in range(MOST_LEAVES + 3)])
    named = [text for text in texts(whole) if "CrashLoopBackOff" in text]
    assert len(named) == MOST_LEAVES
    assert texts(whole)[-1] == "objects 3: more objects that block"


def test_aggregating_twice_changes_nothing():
    children = [pod(**CRASHING), pod("leaving", **LEAVING)]
    once = view("ReplicaSet", *children)
    assert aggregate(once, children) == once


def test_a_set_is_as_good_as_its_worst():
    summary = summarize([view("Deployment"), pod("bad", **CRASHING), view("ConfigMap")])
    assert (summary.ready, summary.settled, summary.health) == (False, False, Health.RED)
    assert (summary.total, summary.healths) == (3, (2, 0, 1))
    assert str(summary.reasons[0]).startswith("Pod/bad › ")


def test_a_set_of_none_is_good_and_counts_nothing():
    summary = summarize([])
    assert (summary.ready, summary.settled, summary.health) == (True, True, Health.GREEN)
    assert (summary.total, summary.reasons) == (0, ())


def test_what_probes_say_counts_of_those_objects_of_which_they_say_anything():
    def answer(own: bool | None, *below: bool | None) -> bool | None:
        owner = replace(view("ReplicaSet"), traffic_ready=own)
        whole = aggregate(owner, [replace(pod(), traffic_ready=one) for one in below])
        assert whole.application_qualified is None
        return whole.traffic_ready

    assert answer(None, None, None) is None
    assert answer(None, True, None) is answer(True, None) is True
    assert answer(None, True, False) is answer(False, True) is False
