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

pytestmark = pytest.mark.xdist_group("store")

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


@pytest.mark.parametrize("sees_it", ["new", "old"])
def test_each_judges_what_it_sees_and_counts_what_it_cannot_read(flag, sees_it):
    with Replica(flag) as new, Replica(flag, within=BEFORE) as old:
        replicas = {"new": sharing(new), "old": sharing(old)}
        one = replicas.pop(sees_it)
        (other,) = replicas.values()
        loop = Loop()
        loop.until(one, lambda: findings(one), "found by the one that sees it")
        assert "observed-generation-cleared" in detectors(one)
        wait_until(lambda: other.metric(FACTS, result="unreadable") > 0, what="not read, counted")
        assert other.metric(FACTS, result="read") == 0
        assert findings(other) == {}
        # What is restored is no fact: it goes on between the two.
        one.ask("intent", "across", {"observedGeneration": 5})
        other.must_restore("across", 5)


def test_when_all_are_replaced_they_judge_together_again(flag):
    with Replica(flag) as new:
        sharing(new)
        with Replica(flag, within=BEFORE) as old:
            sharing(old)
            loop = Loop()
            loop.until(old, lambda: findings(old), "found by the old one")
            assert findings(new) == {}
            assert old.stop(at_once=True) == 0
        with Replica(flag) as later:
            sharing(later)
            loop.spread((new, later), lambda: findings(new), "found in calls to both")
            wait_until(lambda: findings(later).keys() == findings(new).keys(), what="by both")
            assert "observed-generation-cleared" in detectors(later)
