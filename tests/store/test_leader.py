"""Who speaks for all of them: one, and soon another when it is gone."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.controlplane.client import wait_until
from tests.controlplane.plane import ControlPlane
from tests.store.alertmanager import Alertmanager
from tests.store.loop import Loop, findings
from tests.store.proxy import Proxy
from tests.store.replica import Replica
from tests.store.server import StoreServer
from webhook.cluster.lease import LEASE_SECONDS


def _leaders(*replicas: Replica) -> list[Replica]:
    return [one for one in replicas if one.metric("genguard_leader") == 1]


@contextmanager
def _three(*flags: str) -> Iterator[list[Replica]]:
    with Replica(*flags) as one, Replica(*flags) as two, Replica(*flags) as three:
        yield [one, two, three]


@pytest.mark.parametrize("by", ["lease", "key"])
def test_exactly_one_leads_and_hands_over(apiserver: ControlPlane, by: str):
    with StoreServer() as store, Proxy(store.socket) as proxy:
        flags = [f"--store=valkey://127.0.0.1:{proxy.port}/0"]
        if by == "lease":
            flags.append(f"--kubeconfig={apiserver.kubeconfig}")
        with _three(*flags) as replicas:
            (first,) = wait_until(lambda: _leaders(*replicas), what="a leader")
            others = [one for one in replicas if one is not first]
            first.kill()
            (second,) = wait_until(lambda: _leaders(*others), what="another leader")
            (third,) = (one for one in others if one is not second)
            second.stop(at_once=True)
            wait_until(lambda: _leaders(third), what="the last one leads")


def test_a_loop_that_no_replica_sees_alone_is_one_finding_one_alert_and_told_once_in_the_logs(
    apiserver: ControlPlane,
):
    with StoreServer() as store, Proxy(store.socket) as proxy, Alertmanager() as alertmanager:
        flags = (
            f"--store=valkey://127.0.0.1:{proxy.port}/0",
            f"--alertmanager={alertmanager.url}",
        )
        with Replica(*flags) as one, Replica(*flags) as two:
            both = (one, two)
            wait_until(lambda: all(each.has_store for each in both), what="store asked")
            wait_until(lambda: _leaders(*both), what="a leader")
            # What is published before a replica reads for the first time is no news to it.
            wait_until(lambda: all(each.is_sharing for each in both), what="facts shared by both")
            Loop().spread(both, lambda: any(map(_opened, both)), "a loop told in a log")
            found = wait_until(lambda: _agreed(one, two), what="the same finding at both")

            def told() -> set[str]:
                return {json.dumps(each["labels"], sort_keys=True) for each in alertmanager.alerts}

            wait_until(lambda: len(told()) >= len(found), what="an alert of each finding")
            least = 2 * len(found)
            wait_until(lambda: len(alertmanager.alerts) >= least, what="alerts of both replicas")
            assert len(told()) == len(found)
            lines = [*_opened(one), *_opened(two)]
            assert len(lines) == len(set(lines)), "told once"
            with Replica(*flags) as late:
                wait_until(lambda: findings(late) == findings(one), what="a new one knows it all")
                assert not _opened(late), "and tells none of it as news"


def _opened(replica: Replica) -> list[str]:
    return [line["id"] for line in replica.log_lines("finding opened")]


def _agreed(one: Replica, two: Replica) -> dict[str, Any] | None:
    found = findings(one)
    return found if found == findings(two) else None


def test_by_a_lease_there_is_a_lease(apiserver: ControlPlane):
    with StoreServer() as store, Proxy(store.socket) as proxy:
        flags = (
            f"--store=valkey://127.0.0.1:{proxy.port}/0?prefix=other:",
            f"--kubeconfig={apiserver.kubeconfig}",
        )
        with Replica(*flags) as one:
            wait_until(lambda: _leaders(one), what="a leader")
            path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/genguard"
            spec = apiserver.client.get(path).body["spec"]
            assert spec["holderIdentity"]
            assert spec["leaseDurationSeconds"] == LEASE_SECONDS
            one.stop(at_once=True)
        assert not apiserver.client.get(path).body["spec"].get("holderIdentity")
