"""During an upgrade: a new replica beside one of the version before, with facts of another form."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.client import wait_until
from tests.store.loop import Loop, findings
from tests.store.proxy import Proxy
from tests.store.replica import Replica
from tests.store.server import StoreServer

BEFORE = (sys.executable, str(Path(__file__).with_name("earlier_format.py")))
FACTS = "genguard_store_facts_total"


@pytest.fixture
def flag() -> Iterator[str]:
    with StoreServer() as store, Proxy(store.socket) as proxy:
        yield f"--store=valkey://127.0.0.1:{proxy.port}/0"


def sharing(replica: Replica) -> Replica:
    wait_until(lambda: replica.has_store, what="store asked")
    return replica


def detectors(replica: Replica) -> set[str]:
    return {one["detector"] for one in findings(replica).values()}


def test_the_leader_judges_what_it_can_read_and_counts_the_rest_and_all_show_it(flag):
    with Replica(flag) as new, Replica(flag, within=BEFORE) as old:
        both = (sharing(new), sharing(old))
        (leader,) = wait_until(
            lambda: [one for one in both if one.metric("genguard_leader") == 1], what="a leader"
        )
        (other,) = (one for one in both if one is not leader)
        loop = Loop()
        loop.until(leader, lambda: findings(leader), "found in what the leader saw")
        assert "observed-generation-cleared" in detectors(leader)
        loop.until(other, lambda: leader.metric(FACTS, result="unreadable") > 0, "counted")
        wait_until(lambda: findings(other).keys() == findings(leader).keys(), what="shown by both")
        # What is restored is no fact: it goes on between the two.
        leader.ask("intent", "across", {"observedGeneration": 5})
        other.must_restore("across", 5)


def test_when_all_are_replaced_each_fact_is_read_again(flag):
    with Replica(flag) as new:
        sharing(new)
        with Replica(flag, within=BEFORE) as old:
            sharing(old)
            assert old.stop(at_once=True) == 0
        with Replica(flag) as later:
            sharing(later)
            Loop().spread((new, later), lambda: findings(new), "found in calls to both")
            wait_until(lambda: findings(later).keys() == findings(new).keys(), what="by both")
            assert "observed-generation-cleared" in detectors(later)
            assert [one.metric(FACTS, result="unreadable") for one in (new, later)] == [0, 0]
