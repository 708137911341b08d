"""Two processes and one store judge as one."""

import pytest

from tests.controlplane.client import wait_until
from tests.reviews import make_review
from tests.store.replica import Replica

pytestmark = pytest.mark.xdist_group("store")


def _intend(replica: Replica, name: str, generation: int) -> None:
    """/intent, and what is published behind its answer."""
    before = replica.asked("put", "ok")
    replica.ask("intent", name, {"observedGeneration": generation})
    replica.published(before + 1)


def test_what_one_was_sent_the_other_restores(replicas):
    one, other = replicas
    _intend(one, "sent-to-one", 5)
    other.must_restore("sent-to-one", 5)
    one.must_restore("sent-to-one", 5)  # it has not forgotten


def test_asked_again_in_round_1_it_is_still_there(replicas):
    one, other = replicas
    _intend(one, "two-rounds", 5)
    other.must_restore("two-rounds", 5)
    other.must_restore("two-rounds", 5)


def test_what_nobody_was_sent_is_not_restored(replicas):
    assert replicas[1].restores("never-sent") is None


def test_two_that_differ_cancel_each_other_wherever_they_came_in(replicas):
    one, other = replicas
    _intend(one, "cancelled", 5)
    _intend(other, "cancelled", 6)
    assert [one.restores("cancelled"), other.restores("cancelled")] == [None, None]


def test_an_intent_after_an_answered_one_is_a_new_write(replicas):
    one, other = replicas
    _intend(one, "refused", 5)
    other.must_restore("refused", 5)
    _intend(other, "refused", 6)
    one.must_restore("refused", 6)
    other.must_restore("refused", 6)


def test_round_1_at_another_replica_says_what_round_0_said(replicas):
    """The API server refuses a second value for a key of an audit annotation."""
    one, other = replicas
    sent = {"observedGeneration": 5, "conditions": [{"type": "Ready", "observedGeneration": 5}]}
    lost = [{**sent, "observedGeneration": 0}, {"conditions": [{"type": "Ready"}]}]
    one.ask("intent", "two-voices", sent)
    told = one.asked("tell", "ok")
    first = one.ask("mutate", "two-voices", lost[0])
    wait_until(lambda: one.asked("tell", "ok") > told, what="told")
    fetched = other.asked("fetch", "ok")
    second = other.ask("mutate", "two-voices", lost[1])
    assert other.asked("fetch", "ok") == fetched + 1
    assert first["auditAnnotations"] == second["auditAnnotations"]
    assert first["patch"] != second["patch"]


def test_a_write_that_lost_nothing_waits_for_nobody(replicas):
    other = replicas[1]
    before = other.asked("fetch", "ok")
    other.ask("mutate", "complete", {"observedGeneration": 5})
    other.call("mutate", make_review(new={"spec": {"replicas": 2}}, old={"spec": {"replicas": 1}}))
    assert other.asked("fetch", "ok") == before


def test_a_dry_run_leaves_nothing_in_the_store(replicas, store):
    one, _ = replicas
    before = one.asked("put", "ok", "dropped")
    review = make_review(
        new={"status": {"observedGeneration": 5}}, old={}, subresource="status", dry_run=True
    )
    one.call("intent", review)
    _intend(one, "after-the-dry-run", 5)
    assert one.asked("put", "ok", "dropped") == before + 1


def test_every_key_expires_and_tells_nothing(replicas, store):
    _intend(replicas[0], "a-telling-name", 5)
    keys = store.run("KEYS", "*")
    assert keys
    for key in keys:
        assert 0 < store.run("PTTL", key) <= 30_000
        assert b"telling" not in key
        assert b"telling" not in b"".join(store.run("HGETALL", key).keys())
