"""Two replicas and a real Alertmanager: what is silenced at one is silent everywhere."""

import json
import urllib.request
from typing import Any

from tests.controlplane.client import wait_until
from tests.monitoring.stack import running
from tests.store.loop import Loop, findings
from tests.store.proxy import Proxy
from tests.store.replica import Replica
from tests.store.server import StoreServer
from tests.waiting import PATIENCE


def _silences(server: Replica) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(server.ops("/api/silences")[1])["silences"]
    return found


def _post(server: Replica, finding: str, asked: dict[str, Any]) -> None:
    request = urllib.request.Request(
        f"{server.ops_url}/api/findings/{finding}/silence",
        json.dumps(asked).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        assert answer.status == 200


def _alerted(server: Replica) -> list[str]:
    found = findings(server).values()
    return [one["id"] for one in found if one["severity"] != "info" and one["state"] == "open"]


def test_what_one_replica_silences_is_silent_at_all_and_in_alertmanager_until_another_ends_it():
    with StoreServer() as store, Proxy(store.socket) as proxy, running() as stack:
        alertmanager = stack.alertmanager
        flags = f"--store=valkey://127.0.0.1:{proxy.port}/0", f"--alertmanager={alertmanager.url}"
        with Replica(*flags) as one, Replica(*flags) as other:
            for replica in (one, other):
                wait_until(lambda replica=replica: replica.has_store, what="store asked")
            Loop().spread((one, other), lambda: _alerted(one), "a finding that alerts")
            (finding, *_) = _alerted(one)

            def state() -> str:
                alerts = alertmanager.get("/api/v2/alerts", filter=f'finding="{finding}"')
                return alerts[0]["status"]["state"] if alerts else ""

            def listed() -> list[str]:
                ours = alertmanager.get("/api/v2/silences", filter=f'finding="{finding}"')
                return sorted(found["status"]["state"] for found in ours)

            wait_until(lambda: state() == "active", what="the alert")
            asked = {"action": "silence", "reason": "GG-17", "by": "ana", "seconds": 3_600}
            _post(one, finding, asked)
            wait_until(lambda: _silences(other) == _silences(one) != [], what="known at both")
            wait_until(lambda: state() == "suppressed", what="nobody notified")
            assert listed() == ["active"], "one silence, whoever leads"
            _post(other, finding, {"action": "end"})
            wait_until(lambda: _silences(one) == [], what="ended at both")
            wait_until(lambda: state() == "active", what="people notified again")
            assert listed() == ["expired"]
