"""The dashboard is one that Grafana loads, and shows what genguard exports."""

import re

import yaml

from tests.cases_loader import read_beside
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


def test_every_metric_that_genguard_exports_is_in_it_or_said_not_to_be(exported: set[str]) -> None:
    asked = {name for query in dashboard_queries() for name in families(query.expression)}
    assert exported - asked <= set(read_beside(__file__, "not_shown.yaml"))


def test_kustomize_brings_it_to_grafanas_sidecar() -> None:
    component = yaml.safe_load((MONITORING / "kustomization.yaml").read_text())
    (made,) = component["configMapGenerator"]
    assert made["files"] == [str(DASHBOARD.relative_to(MONITORING))]
    assert made["options"]["labels"] == {"grafana_dashboard": "1"}
