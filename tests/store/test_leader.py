"""Who speaks for all of them: one, and soon another when it is gone."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from tests.controlplane.client import wait_until
from tests.controlplane.plane import ControlPlane
from tests.store.alertmanager import Alertmanager
from tests.store.loop import Loop, findings
from tests.store.proxy import Proxy
from tests.store.replica import Replica
from tests.store.server import StoreServer

pytestmark = pytest.mark.xdist_group("apiserver")

_HANDOVER_SECONDS = 15.0
_RELEASED_SECONDS = 8.0  # a tick, and a machine that is busy


def _leaders(*replicas: Replica) -> list[Replica]:
    return [one for one in replicas if one.metric("genguard_leader") == 1]


def _alerts_of_all(replica: Replica) -> bool:
    """A single write is no alert."""
    found = findings(replica).values()
    return bool(found) and all(one["severity"] != "info" for one in found)


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
            began = time.monotonic()
            (second,) = wait_until(
                lambda: _leaders(*others), _HANDOVER_SECONDS, what="another leader"
            )
            assert time.monotonic() - began <= _HANDOVER_SECONDS
            (third,) = (one for one in others if one is not second)
            second.stop(at_once=True)
            wait_until(lambda: _leaders(third), _RELEASED_SECONDS, what="the last one leads")


def test_a_loop_that_every_replica_sees_is_one_alert(apiserver: ControlPlane):
    with StoreServer() as store, Proxy(store.socket) as proxy, Alertmanager() as alertmanager:
        flags = (
            f"--store=valkey://127.0.0.1:{proxy.port}/0",
            f"--alertmanager={alertmanager.url}",
        )
        with Replica(*flags) as one, Replica(*flags) as two:
            for replica in (one, two):
                loop = Loop()
                loop.until(replica, partial(_alerts_of_all, replica), what="loops")
            assert findings(one).keys() == findings(two).keys()

            def told() -> bool:
                senders = len(alertmanager.alerts)
                return senders >= 2 * len(findings(one))

            wait_until(told, _HANDOVER_SECONDS, what="an alert of each replica")
            labels = {json.dumps(one["labels"], sort_keys=True) for one in alertmanager.alerts}
            assert len(labels) == len({*findings(one)})


def test_by_a_lease_there_is_a_lease(apiserver: ControlPlane):
    with StoreServer() as store, Proxy(store.socket) as proxy:
        flags = (
            f"--store=valkey://127.0.0.1:{proxy.port}/0?prefix=other:",
            f"--kubeconfig={apiserver.kubeconfig}",
        )
        with Replica(*flags) as one:
            wait_until(lambda: _leaders(one), _HANDOVER_SECONDS, what="a leader")
            path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/genguard"
            spec = apiserver.client.get(path).body["spec"]
            assert spec["holderIdentity"]
            assert spec["leaseDurationSeconds"] == 10
            one.stop(at_once=True)
        assert not apiserver.client.get(path).body["spec"].get("holderIdentity")
