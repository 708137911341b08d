"""A default install tells what people have reported: 37 public incidents, played small."""

import json
from typing import Any

from tests.kind.cluster import Cluster, Figure, fetch
from tests.kind.core.incidents import missed


def test_a_default_install_names_who_keeps_37_objects_from_rest(
    cluster: Cluster, figure: Figure
) -> None:
    def ask(path: str) -> Any:
        with cluster.forwarded(f"pod/{cluster.answering()['metadata']['name']}") as url:
            return json.loads(fetch(f"{url}{path}"))

    cluster.ensure(audit_only=True)
    left = missed(cluster.client, lambda *flags: cluster.install(*flags, audit_only=True), ask)
    told = f"{37 - sum(map(len, left.values()))} of 37"
    figure(told)
    assert told == "37 of 37", left
    cluster.genguard("uninstall", "--yes")
