"""Plays the controllers that a Deployment needs, where they are not built.

KUBEBUILDER_ASSETS has an API server and etcd, and no controllers. What they do to one Deployment is
little: they replace its pods, one at a time, and write its status after each. As the real one, this
controller writes again when its object has changed, and rests when its write changes nothing.
"""

from typing import Any

from tests.controlplane.client import Client
from tests.controlplane.plane import ControlPlane
from tests.e2e.player import Player

_CONTROLLER = "system:serviceaccount:kube-system:deployment-controller"


class DeploymentController(Player):
    """`with DeploymentController(plane, namespace):`; one step of one rollout each look."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        super().__init__(plane)
        self._namespace = namespace
        self._seen: dict[str, str] = {}
        """The version of each Deployment that was left as it should be, by name."""

    def look(self, client: Client) -> None:
        client = client.as_user(_CONTROLLER, ["system:masters"])
        path = f"/apis/apps/v1/namespaces/{self._namespace}/deployments"
        for found in client.get(path).body["items"]:
            if self._seen.get(found["metadata"]["name"]) != found["metadata"]["resourceVersion"]:
                self._act(client, f"{path}/{found['metadata']['name']}/status", found)

    def _act(self, client: Client, path: str, found: dict[str, Any]) -> None:
        wanted, template = found["spec"]["replicas"], found["spec"]["template"]
        pods = f"/api/v1/namespaces/{self._namespace}/pods"
        there = client.get(pods).body["items"]
        image = template["spec"]["containers"][0]["image"]
        new = [one for one in there if one["spec"]["containers"][0]["image"] == image]
        old = [one for one in there if one not in new]
        if len(new) < wanted:
            metadata = {"generateName": "web-", "labels": template["metadata"]["labels"]}
            new.append(client.post(pods, {"metadata": metadata, "spec": template["spec"]}).body)
        for one in old[: len(new) + len(old) - wanted]:
            client.delete(f"{pods}/{one['metadata']['name']}", {"gracePeriodSeconds": 0})
            old.remove(one)
        count = len(new) + len(old)
        status = {
            "observedGeneration": found["metadata"]["generation"],
            **dict.fromkeys(("replicas", "readyReplicas", "availableReplicas"), count),
            "updatedReplicas": len(new),
        }
        stored = client.put(path, {**found, "status": status}).body
        if len(new) == wanted and not old and _version(stored) == _version(found):
            self._seen[found["metadata"]["name"]] = _version(stored)


def _version(found: dict[str, Any]) -> str:
    return str(found["metadata"]["resourceVersion"])
