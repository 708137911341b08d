"""Whose a terminating pod is, what is reported of it, and that nothing is kept of what is gone."""

from functools import partial

import msgspec
import pytest

from genguard.status.terminating_pods import (
    DEPLOYMENT,
    REPLICA_SET,
    Agreement,
    Count,
    Terminating,
    waits_for,
)
from tests.cases_loader import table
from tests.unit.status.sights import see, sight


@table("status/terminating_counts.yaml", "seen", "counted")
def test_pods_count_where_the_controllers_count_them(case):
    terminating = Terminating()
    for words in case["seen"]:
        see(terminating, **words)
    claimed = terminating._claimed()
    assert {uid: len(claimed.get(uid, ())) for uid in case["counted"]} == case["counted"]


@pytest.mark.parametrize(
    ("says", "reported", "because"),
    [
        (0, 0, "nothing terminates"),
        (2, 2, "two do"),
        (None, None, "absent is not 0: who has the gate off does not say"),
    ],
)
def test_what_a_controller_reports_stands_beside_the_count(says, reported, because):
    terminating = Terminating()
    see(terminating, kind="ReplicaSet", name="one", of="Deployment/web", says=says)
    see(terminating, kind="Pod", name="a", of="ReplicaSet/one")
    (one,) = terminating.counts(REPLICA_SET)
    assert one._replace(oldest=None) == Count("shop", "one", reported, 1), because
    assert [*terminating.counts(DEPLOYMENT)] == []


def test_agreement_sorts_every_object_into_one_of_three():
    terminating = Terminating()
    see(terminating, kind="Deployment", name="web", says=1)
    see(terminating, kind="ReplicaSet", name="right", of="Deployment/web", says=1)
    see(terminating, kind="ReplicaSet", name="late", of="Deployment/web", says=0)
    see(terminating, kind="ReplicaSet", name="stale", says=3)
    see(terminating, kind="ReplicaSet", name="silent")
    see(terminating, kind="ReplicaSet", name="quiet", says=0)
    for pod, of in (("a", "right"), ("b", "late"), ("c", "silent")):
        see(terminating, kind="Pod", name=pod, of=f"ReplicaSet/{of}")
    assert terminating.agreement(REPLICA_SET) == Agreement(2, 2, 1)
    assert terminating.agreement(DEPLOYMENT) == Agreement(0, 1, 0)
    see(terminating, kind="Deployment", name="web", says=2)
    assert terminating.agreement(DEPLOYMENT) == Agreement(1, 0, 0)


def test_pods_are_summed_by_the_kind_of_their_controller():
    terminating = Terminating()
    for number, of in enumerate(["ReplicaSet/one", "ReplicaSet/two", "Job/once", ""]):
        see(terminating, kind="Pod", name=f"{number}", of=of)
    assert terminating.pods() == {"ReplicaSet": 2, "Job": 1, "": 1}


def test_a_deployment_shows_when_it_replaces_its_pods():
    for given, policy in (("TerminationComplete", "TerminationComplete"), ("Later", "")):
        terminating = Terminating()
        see(terminating, kind="Deployment", name="web", says=0, policy=given)
        (one,) = terminating.counts(DEPLOYMENT)
        assert (one.policy, one.oldest) == (policy, None)


@table("status/holders.yaml", "node", "finalizers", "is_over", "told")
def test_a_node_holds_a_pod_until_its_containers_stopped_and_finalizers_after_that(case):
    found = waits_for(case["node"], case["finalizers"], is_over=case["is_over"])
    assert found == case["told"], case.because


def test_an_object_keeps_its_place_when_it_changes():
    terminating = Terminating()
    for says, name in ((0, "first"), (0, "second"), (1, "first")):
        see(terminating, kind="ReplicaSet", name=name, says=says)
    assert [one.name for one in terminating.counts(REPLICA_SET)] == ["first", "second"]


@table("status/unreadable_sights.yaml", "kind", "broken")
def test_what_cannot_be_read_is_refused_and_changes_nothing(case):
    terminating, kind = Terminating(), case["kind"]
    see(terminating, kind="ReplicaSet", name="one", says=1)
    see(terminating, kind="Pod", name="one", of="ReplicaSet/one")
    broken = {key: msgspec.Raw(raw.encode()) for key, raw in case["broken"].items()}
    take_in = partial(terminating.record_owner, kind)
    with pytest.raises((KeyError, msgspec.MsgspecError)):
        (terminating.record_pod if kind == "Pod" else take_in)(sight(kind, "one") | broken)
    assert terminating.agreement(REPLICA_SET) == Agreement(1, 0, 0)
    terminating.forget("ReplicaSet/one")
    assert terminating.agreement(REPLICA_SET) == Agreement(0, 0, 0)
