"""The dashboard is one that Grafana loads, and every metric in it is one that genguard exports."""

import re

import yaml

from tests.monitoring.queries import DASHBOARD, dashboard, dashboard_queries, families, panels
from tests.monitoring.rules import MONITORING

PROMETHEUS = {"type": "prometheus", "uid": "${datasource}"}


def test_it_has_what_grafana_needs_to_load_it() -> None:
    found = dashboard()
    assert re.fullmatch(r"[a-z0-9-]{1,40}", found["uid"])
    assert found["title"]
    assert found["schemaVersion"] >= 39
    assert "id" not in found, "the database's own: an import would overwrite another dashboard"
    assert {"time", "refresh", "templating", "annotations", "panels"} <= found.keys()
    assert found["time"] == {"from": "now-6h", "to": "now"}
    assert "__inputs" not in found, "a sidecar loads the file as it is, and asks nobody"


def test_every_panel_asks_the_chosen_data_source_cluster_and_namespace() -> None:
    for panel in panels():
        assert panel["datasource"] == PROMETHEUS
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"]) > 0
        for target in panel["targets"]:
            assert target["datasource"] == PROMETHEUS
            for matchers in re.findall(r"\{([^}]*)\}", target["expr"]):
                assert 'cluster=~"$cluster"' in matchers
                if 'name=~".+[.]genguard[.]io"' not in matchers:  # the API server's own
                    assert 'job="genguard"' in matchers
                    assert 'namespace=~"$namespace"' in matchers
            assert re.fullmatch(r"[^{}]*(\{\{\w+\}\}[^{}]*)*", target["legendFormat"])


def test_every_metric_in_it_is_one_that_genguard_exports(exported: set[str]) -> None:
    asked = {name for query in dashboard_queries() for name in families(query.expression)}
    own = {name for name in asked if name.startswith("genguard_")}
    assert own <= exported
    assert exported - own <= {
        # By name beside the one that is shown, or of use to an alert alone.
        "genguard_replicaset_terminating_pods", "genguard_replicasets_without_series",
        "genguard_replicaset_terminating_pod_age_seconds",
        "genguard_deployment_terminating_pod_age_seconds",
        "genguard_deployments_without_series", "genguard_flip_status_refused",
        "genguard_task_failures_total", "genguard_left_out_total", "genguard_sink_replaced_total",
        "genguard_store_left_out",
        "genguard_costly_conditions", "genguard_remembered_dropped_total",
        "genguard_store_dropped_total", "genguard_ops_refused_connections_total",
        "genguard_leader", "genguard_last_review_timestamp_seconds",
        "genguard_event_loop_lag_seconds", "genguard_certificate_rotation_failing",
        "genguard_unchanged_status_writes_total", "genguard_rules_refused",
        "genguard_generation_lag_oldest_seconds",
        "genguard_writes_total", "genguard_incomplete_writes_total",
        "genguard_observed_generation_total",
        "genguard_registered_writes", "genguard_registrations_reverted",
        "kube_replicaset_status_terminating_replicas",
        "kube_deployment_status_replicas_terminating",
    }  # fmt: skip


def test_kustomize_brings_it_to_grafanas_sidecar() -> None:
    component = yaml.safe_load((MONITORING / "kustomization.yaml").read_text())
    (made,) = component["configMapGenerator"]
    assert made["files"] == [str(DASHBOARD.relative_to(MONITORING))]
    assert made["options"]["labels"] == {"grafana_dashboard": "1"}
