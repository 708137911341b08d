"""An Alertmanager that runs in the cluster, and the alerts that it has."""

import json
from typing import Any

from tests.kind.cluster import Cluster
from tests.kind.images import build

NAMESPACE = "monitoring"
URL = f"http://alertmanager.{NAMESPACE}.svc:9093"
_PROXY = f"/api/v1/namespaces/{NAMESPACE}/services/alertmanager:9093/proxy/api/v2/alerts"


def run(cluster: Cluster) -> None:
    """Start it, and wait until it is ready."""
    image = build("alertmanager")
    cluster.load(image)
    cluster.namespace(NAMESPACE)
    cluster.apply_file("alertmanager.yaml", image=image)
    cluster.rolled_out(NAMESPACE, "alertmanager")


def alerts(cluster: Cluster, **labels: str) -> list[dict[str, Any]]:
    """Alerts that fire and have these labels."""
    found: list[dict[str, Any]] = json.loads(cluster.kubectl("get", "--raw", _PROXY))
    return [one for one in found if labels.items() <= one["labels"].items()]
