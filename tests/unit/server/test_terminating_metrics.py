"""Terminating replicas at /metrics: reported and counted side by side, and nothing made up."""

from collections import Counter
from datetime import UTC, datetime

import pytest
from prometheus_client.metrics_core import Metric

from genguard.status.tracking import Tracking
from tests.cases_loader import table
from tests.unit.status.sights import sight
from webhook.server.collectors import TerminatingMetrics
from webhook.server.watching import Watching

ALL = ("pods", "replicasets.apps", "deployments.apps")
NOW = datetime(2026, 7, 25, 12, 5, tzinfo=UTC).timestamp()
"""Five minutes after the grace period of the pods of sights.py."""
AGES = {"genguard_terminating_pod_age_seconds", "genguard_terminating_pod_overdue_seconds"}
REPORTED = {
    "replicaset": "kube_replicaset_status_terminating_replicas",
    "deployment": "kube_deployment_status_replicas_terminating",
}


def watching(*resources: str, says: dict[str, int] | None = None) -> Watching:
    """A rollout of the Deployment web: three pods of its old ReplicaSet go, one of its new."""
    said = says or {}
    seen = Watching(resources or ALL, Tracking())
    sets = [sight("ReplicaSet", n, of="Deployment/web", says=said.get(n)) for n in ("old", "new")]
    pods = [sight("Pod", f"{n}", of="ReplicaSet/old" if n else "ReplicaSet/new") for n in range(4)]
    shown = {
        "pods": pods,
        "replicasets.apps": sets,
        "deployments.apps": [sight("Deployment", "web", says=said.get("web"))],
    }
    for resource in resources or ALL:
        for found in shown[resource]:
            seen.seen(resource, found)
        seen.current(resource, is_current=True)
    return seen


def families(seen: Watching, most_named: int = 1_000) -> dict[str, Metric]:
    metrics = TerminatingMetrics(seen, most_named, lambda: NOW)
    return {one.name: one for one in metrics.collect()}


def by_name(seen: Watching, label: str, names: list[str]) -> list[dict[str, float]]:
    found = families(seen)
    return [{s.labels[label]: s.value for s in found[name].samples} for name in names]


@table("status/terminating_skew.yaml", "says", "shown", "objects")
def test_whatever_the_servers_say_the_pods_tell_the_truth(case):
    seen = watching(says=case["says"])
    for label, names in (("replicaset", {"old", "new"}), ("deployment", {"web"})):
        shown = {name: n for name, n in case["shown"].items() if name in names}
        assert by_name(seen, label, [REPORTED[label]]) == [shown]
    counted = by_name(seen, "replicaset", ["genguard_replicaset_terminating_pods"])
    counted += by_name(seen, "deployment", ["genguard_deployment_terminating_pods"])
    assert counted == [{"old": 3, "new": 1}, {"web": 4}]
    objects: Counter[str] = Counter()
    for sample in families(seen)["genguard_terminating_replicas_objects"].samples:
        objects[sample.labels["status"]] += int(sample.value)
    assert objects == case["objects"]


def test_names_and_labels_are_those_of_the_kep():
    found = families(watching(says={"old": 3, "new": 1, "web": 4}))
    for label, name in REPORTED.items():
        assert found[name].type == "gauge"
        assert found[name].samples, name
        for sample in found[name].samples:
            assert sample.labels.keys() == {"namespace", label}
            assert sample.labels["namespace"] == "shop"


@pytest.mark.parametrize(
    ("resources", "filled"),
    [
        (("pods",), {"genguard_terminating_pods", *AGES}),
        (("replicasets.apps",), {REPORTED["replicaset"]}),
        (("deployments.apps",), {REPORTED["deployment"]}),
        (
            ("pods", "deployments.apps"),
            {"genguard_terminating_pods", *AGES, REPORTED["deployment"]},
        ),
        (("replicasets.apps", "deployments.apps"), set(REPORTED.values())),
    ],
)
def test_what_is_not_watched_is_not_told(resources, filled):
    found = families(watching(*resources, says={"old": 3, "new": 1, "web": 4}))
    counts = {
        name
        for name, one in found.items()
        if one.samples and name != "genguard_watch_current" and "without_series" not in name
    }
    assert counts == filled


def test_before_all_has_been_seen_a_count_is_not_told():
    """Half of a list would say that less terminates than does."""
    seen = Watching(ALL, Tracking())
    for resource in ("replicasets.apps", "deployments.apps"):
        seen.current(resource, is_current=True)
    seen.seen("pods", sight("Pod", "a", of="ReplicaSet/one"))
    found = families(seen)
    assert not found["genguard_terminating_pods"].samples
    for name in AGES:
        assert not found[name].samples
    assert not found["genguard_terminating_replicas_objects"].samples
    assert {s.labels["resource"]: s.value for s in found["genguard_watch_current"].samples} == {
        "pods": 0,
        "replicasets.apps": 1,
        "deployments.apps": 1,
    }


def test_a_custom_controller_makes_no_label_of_its_own():
    seen = watching()
    kinds = ["Rollout", "Game", "StatefulSet"]
    for kind in kinds:
        seen.seen("pods", sight("Pod", kind, of=f"{kind}/one"))
    found = families(seen)["genguard_terminating_pods"].samples
    values = {sample.labels["controller"]: sample.value for sample in found}
    assert values["other"] == 2
    assert values["StatefulSet"] == 1
    assert values["ReplicaSet"] == 4
    assert values["Job"] == 0
    assert not values.keys() & {"Rollout", "Game"}


def test_names_are_shown_only_when_asked_for_and_never_more_than_that():
    seen = watching()
    assert not any(
        "namespace" in s.labels for one in families(seen, 0).values() for s in one.samples
    )
    found = families(seen, 1)
    named = found["genguard_replicaset_terminating_pods"].samples
    assert [sample.labels["replicaset"] for sample in named] == ["old"], "the first one seen"
    assert found["genguard_replicasets_without_series"].samples[0].value == 1
    assert found["genguard_deployments_without_series"].samples[0].value == 0


def ages(seen: Watching, name: str, label: str, most_named: int = 1_000) -> dict[str, float]:
    found = families(seen, most_named)[f"genguard_{name}_seconds"].samples
    return {sample.labels[label]: sample.value for sample in found}


def test_the_oldest_pod_has_the_age_of_its_deletion_and_is_overdue_since_its_grace_ended():
    seen = watching()
    seen.seen("pods", sight("Pod", "slow", of="StatefulSet/db", due="12:10:00", grace=3_600))
    seen.seen("pods", sight("Pod", "next", of="StatefulSet/db", due="12:05:30", grace=30))
    seen.seen("pods", sight("Pod", "odd", of="Rollout/x", due="12:04:00"))
    age = ages(seen, "terminating_pod_age", "controller")
    assert (age["StatefulSet"], age["ReplicaSet"], age["other"], age["Job"]) == (3_300, 330, 90, 0)
    overdue = ages(seen, "terminating_pod_overdue", "controller")
    # The StatefulSet's pods are within their grace period, however long it is.
    assert (overdue["StatefulSet"], overdue["ReplicaSet"], overdue["other"]) == (0, 300, 60)
