"""Two processes and one store judge as one."""

from collections.abc import Iterator

import pytest

from tests.controlplane.client import wait_until
from tests.reviews import make_review
from tests.store.patient import NEVER_SLOW
from tests.store.proxy import Proxy
from tests.store.replica import Replica
from tests.store.server import StoreServer


@pytest.fixture(scope="module")
def replicas(store: StoreServer) -> Iterator[tuple[Replica, Replica]]:
    with Proxy(store.socket) as proxy:
        flag = f"--store=valkey://127.0.0.1:{proxy.port}/0"
        with Replica(flag, within=NEVER_SLOW) as one, Replica(flag, within=NEVER_SLOW) as other:
            wait_until(lambda: one.has_store and other.has_store, what="store asked")
            yield one, other


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


_READ = {"hash": ("HGETALL",), "string": ("GET",), "stream": ("XRANGE", "-", "+")}


def _contents(store: StoreServer) -> dict[bytes, bytes]:
    found = {}
    for key in store.run("KEYS", "*"):
        kind = store.run("TYPE", key).decode()
        if kind != "none":  # it has expired meanwhile
            command, *arguments = _READ[kind]
            found[key] = repr(store.run(command, key, *arguments)).encode()
    return found


def test_every_key_expires_and_no_content_of_an_object_is_in_the_store(replicas, store):
    one, _ = replicas
    status = {"observedGeneration": 5, "phase": "a-telling-value"}
    before = one.asked("put", "ok")
    one.ask("intent", "a-telling-name", status)
    one.ask("mutate", "a-telling-name", {**status, "phase": "another-telling-value"})
    one.published(before + 1)
    stream = b"genguard:facts1"
    found = wait_until(
        lambda: b"telling-name" in (found := _contents(store)).get(stream, b"") and found
    )
    assert any(key.startswith(b"genguard:w1:") for key in found)
    for key, content in found.items():
        of_a_write = key.startswith(b"genguard:w1:")
        assert store.run("PTTL", key) <= (30_000 if of_a_write else 3_600_000)
        assert store.run("PTTL", key) != -1
        assert b"telling-value" not in content
        assert not of_a_write or b"telling" not in key + content
