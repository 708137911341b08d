"""`serve --rules configmap:...` at a real API server: followed, and the last good rules kept."""

import json
from typing import Any

from tests.controlplane.client import wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.e2e.custom import Custom, served
from tests.e2e.genguard import Genguard

REFUSED = "genguard_rules_refused"


def rules(custom: Custom, expression: str) -> dict[str, Any]:
    rule = {"apiVersion": f"{custom.group}/v1", "kind": "Widget", "current": expression}
    return {"data": {"widgets.yaml": json.dumps({"rules": [rule]})}}


def phase(custom: Custom, name: str, word: str) -> None:
    custom.plane.client.patch(f"{custom.path}/{name}/status", {"status": {"phase": word}})


def state(guard: Genguard, name: str) -> tuple[bool | None, bool] | None:
    found = json.loads(guard.ops(f"/api/objects?kind=Widget&name={name}")[1])["objects"]
    return (found[0]["ready"], found[0]["settled"]) if found else None


def test_rules_of_a_configmap_are_followed_and_the_last_good_ones_are_kept(
    apiserver: ControlPlane, namespace: NamespaceFactory
) -> None:
    name = namespace(apiserver)
    folder = f"/api/v1/namespaces/{name}/configmaps"
    client = apiserver.client
    with served(apiserver, name, status_subresource=True) as custom:
        client.post(
            folder, {"metadata": {"name": "rules"}, **rules(custom, "status.phase == 'Done'")}
        )
        flags = (
            f"--kubeconfig={apiserver.kubeconfig}",
            f"--watch=widgets.{custom.group}",
            f"--rules=configmap:{name}/rules",
        )
        with Genguard(*flags) as guard:
            wait_until(lambda: guard.log_lines("rules used"), what="the rules")
            custom.create("one")
            phase(custom, "one", "Done")
            wait_until(lambda: state(guard, "one") == (True, True), what="a settled object")
            phase(custom, "one", "Busy")
            wait_until(lambda: state(guard, "one") == (False, False), what="an unsettled object")

            client.patch(f"{folder}/rules", rules(custom, "status.phase =="))
            wait_until(lambda: guard.metric(REFUSED) == 1, what="refused rules")
            (line, *_) = guard.log_lines("rules not used")
            assert f"Widget.{custom.group}: `current`: line 1, column 16" in line["reason"]
            custom.create("two")
            phase(custom, "two", "Done")
            wait_until(lambda: state(guard, "two") == (True, True), what="the earlier rules")

            client.patch(f"{folder}/rules", rules(custom, "status.phase == 'Ended'"))
            wait_until(lambda: guard.metric(REFUSED) == 0, what="new rules")
            custom.create("three")
            phase(custom, "three", "Done")
            wait_until(lambda: state(guard, "three") == (False, False), what="the new rules")
            phase(custom, "three", "Ended")
            wait_until(lambda: state(guard, "three") == (True, True), what="the new rules")
            assert guard.stop() == 0
