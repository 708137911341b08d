"""A loop on a real control plane reaches who is on call, and is taken back when it is mended."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.controlplane.client import wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.controlplane.webhook_listener import WebhookListener
from tests.e2e.account import account
from tests.e2e.culprits import OLD_OPERATOR, pod, removes_observed_generation
from tests.e2e.genguard import Genguard
from tests.e2e.registrations import registered
from tests.monitoring.rules import RUNBOOK_URL, alerts
from tests.monitoring.stack import Alert, Prometheus, Stack, running

DETECTOR = "observed-generation-cleared"
CULPRIT = f"{OLD_OPERATOR}/reviews.example.org"
RESOLVED_WITHIN = 300.0  # 60 s of quiet, and what looks, scrapes and evaluations take


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with running() as found:
        yield found


@pytest.fixture
def as_installed(cluster: ControlPlane, tmp_path: Path) -> Iterator[Path]:
    """A kubeconfig with the rights that the manifests give the server, and no others."""
    with account(cluster, "genguard-alerting", tmp_path / "kubeconfig") as found:
        yield found.kubeconfig


def firing(prometheus: Prometheus) -> list[Alert]:
    return [one for one in prometheus.firing() if one["labels"].get("detector") == DETECTOR]


def events(plane: ControlPlane, where: str, action: str) -> list[dict[str, Any]]:
    """The Events about the loop on the pod."""
    found = plane.client.get(f"/apis/events.k8s.io/v1/namespaces/{where}/events").body["items"]
    reason = "ObservedGenerationCleared"
    return [one for one in found if (one["reason"], one.get("action")) == (reason, action)]


def test_a_loop_becomes_a_firing_alert_and_resolves_after_the_webhook_is_fixed(
    cluster: ControlPlane, namespace: NamespaceFactory, stack: Stack, as_installed: Path
) -> None:
    where = namespace(cluster)
    manager, told = stack.alertmanager, stack.receiver.told
    flags = (f"--kubeconfig={as_installed}", "--events", f"--alertmanager={manager.url}")
    runbooks = (
        f"--runbook-url={RUNBOOK_URL.rstrip('/')}"  # by default at the port that it has taken
    )
    with Genguard("--audit-only", runbooks, *flags) as guard, registered(cluster, where, guard):
        prometheus = stack.scrape(urlsplit(guard.log_lines("serving")[0]["ops"]).netloc)
        wait_until(lambda: prometheus.value('up{job="genguard"}') == 1, what="a first scrape")
        assert prometheus.value("genguard_cluster_known") == 1
        wait_until(lambda: not prometheus.pending_or_firing(), what="nothing to alert on")

        with (
            WebhookListener(cluster.authority, removes_observed_generation) as culprit,
            culprit.registered(cluster, where, ["pods/status"], name=OLD_OPERATOR),
        ):
            cluster.client.post(f"/api/v1/namespaces/{where}/pods", pod())
            by_object = {"alertname": "GenguardLoop", "detector": DETECTOR, "name": "one"}
            (alert,) = wait_until(lambda: told("firing", **by_object), what="told by genguard")
            assert alert["annotations"]["runbook_url"] == RUNBOOK_URL + DETECTOR
            assert f"{CULPRIT} (certain)" in alert["annotations"]["description"]
            assert alert["labels"]["namespace"] == where
            assert manager.active(**by_object)

            (alert, *_) = wait_until(lambda: firing(prometheus), what="firing in Prometheus")
            assert alert["annotations"]["runbook_url"] == RUNBOOK_URL + DETECTOR
            by_rule = {"alertname": "GenguardLoop", "detector": DETECTOR, "severity": "warning"}
            wait_until(lambda: told("firing", **by_rule), what="told by Prometheus")
            assert prometheus.pending_or_firing() == {"GenguardLoop"}

        wait_until(lambda: told("resolved", **by_object), RESOLVED_WITHIN, what="resolved")
        wait_until(lambda: not prometheus.firing(), what="resolved in Prometheus")
        wait_until(lambda: told("resolved", **by_rule), what="told so by Prometheus")
        wait_until(lambda: not manager.active(), what="resolved in Alertmanager")
        told_in_events = wait_until(lambda: events(cluster, where, "Resolved"), what="an Event")
        assert not guard.log_lines("cluster not reached")
        assert not guard.log_lines("event not created")
        assert not guard.log_lines("alertmanager not reached")
    (resolved,) = told_in_events
    assert (resolved["regarding"]["kind"], resolved["type"]) == ("Pod", "Normal")
    begun = [*events(cluster, where, "Opened"), *events(cluster, where, "Escalated")]
    assert begun
    assert all(CULPRIT in event["note"] and event["type"] == "Warning" for event in begun)


def test_the_api_server_counts_what_it_could_not_ask_as_the_alert_expects(
    cluster: ControlPlane, namespace: NamespaceFactory
) -> None:
    where = namespace(cluster)
    expected = {'name="mutate.genguard.io"', 'type="admit"'}
    with Genguard() as guard, registered(cluster, where, guard, phases=("mutate",)):
        assert guard.stop(at_once=True) == 0

        def counted() -> list[str]:
            cluster.client.post(f"/api/v1/namespaces/{where}/pods", pod(), params={"dryRun": "All"})
            lines = cluster.client.get("/metrics").body.splitlines()
            name = "apiserver_admission_webhook_fail_open_count{"
            return [one for one in lines if one.startswith(name) and "mutate.genguard.io" in one]

        (line,) = wait_until(counted, what="a write that passed unseen")
    assert expected == set(line[line.index("{") + 1 : line.index("}")].split(","))
    assert any(rule["alert"] == "GenguardFailOpen" for rule in alerts())
