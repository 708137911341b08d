"""A kubelet that writes the status of pods as its release does, with KEP-5067's gate on or off.

No container runs. With generations it does what the kubelet of kubernetes does. Before 1.33 its
types have no observedGeneration, so it neither reads nor writes one (v1.30.14
pkg/kubelet/kubelet_pods.go:generateAPIPodStatus). From 1.33 on it writes one where
PodObservedGenerationTracking is on, or where one is stored (v1.36.3 pkg/api/v1/pod/util.go:
CalculatePodStatusObservedGeneration, CalculatePodConditionObservedGeneration). It sends a strategic
merge patch of what differs from what it has read (pkg/util/pod/pod.go:PatchPodStatus), and nothing
where nothing differs.
"""

from datetime import UTC, datetime
from typing import Any

from tests.controlplane.client import STRATEGIC_MERGE_PATCH, Client

Json = dict[str, Any]
OWNED = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
"""The conditions that a kubelet sets (pkg/kubelet/types/pod_status.go:PodConditionsByKubelet)."""
_FIELD = "observedGeneration"


class Kubelet:
    """Of one node. `gate` may be changed, as by a restart; None: a release without the field."""

    def __init__(self, node: str, *, gate: bool | None) -> None:
        self.node, self.gate = node, gate

    @property
    def user(self) -> str:
        """Whom the API server sees."""
        return f"system:node:{self.node}"

    def sync(self, client: Client, path: str) -> bool:
        """Looks at a pod once; returns whether there was anything to write."""
        pod = client.get(path).body
        old = self._decoded(pod["status"])
        difference = _difference(old, self._status(pod, old))
        if not difference:
            return False
        body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": difference}
        client.as_user(self.user, ["system:nodes"]).patch(
            f"{path}/status", body, content_type=STRATEGIC_MERGE_PATCH
        )
        return True

    def _decoded(self, status: Json) -> Json:
        """What its types have of a status."""
        conditions = [self._known(one) for one in status.get("conditions", ())]
        return {**self._known(status), "conditions": conditions}

    def _known(self, found: Json) -> Json:
        return {key: one for key, one in found.items() if self.gate is not None or key != _FIELD}

    def _observed(self, old: Json, generation: int) -> Json:
        """The field as it is set beside what was stored; nothing where it is left out."""
        if self.gate is None or not generation or not (self.gate or old.get(_FIELD)):
            return {}
        return {_FIELD: generation}

    def _status(self, pod: Json, old: Json) -> Json:
        now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        generation = pod["metadata"].get("generation", 0)
        before = {one["type"]: one for one in old["conditions"]}
        conditions = [one for one in old["conditions"] if one["type"] not in OWNED]
        for name in OWNED:
            was = before.get(name, {})
            since = was["lastTransitionTime"] if was.get("status") == "True" else now
            condition = {"type": name, "status": "True", "lastTransitionTime": since}
            conditions.append(condition | {"lastProbeTime": None} | self._observed(was, generation))
        others = {key: one for key, one in old.items() if key != _FIELD}
        return (
            others
            | {"phase": "Running", "startTime": old.get("startTime", now)}
            | {"conditions": conditions, "containerStatuses": _containers(pod, old, now)}
            | self._observed(old, generation)
        )


def _containers(pod: Json, old: Json, now: str) -> list[Json]:
    """A container whose image is another now is started again."""
    before = {one["name"]: one for one in old.get("containerStatuses", ())}
    found = []
    for container in pod["spec"]["containers"]:
        was = before.get(container["name"])
        if was is not None and was["image"] == container["image"]:
            found.append(was)
            continue
        started = {
            "name": container["name"],
            "image": container["image"],
            "imageID": f"sha256:{container['image']}",
            "ready": True,
            "started": True,
            "restartCount": 0 if was is None else was["restartCount"] + 1,
            "state": {"running": {"startedAt": now}},
        }
        found.append(started)
    return found


def _difference(old: Json, new: Json) -> Json:
    """A strategic merge patch: lists are whole, but conditions are merged by type."""
    changed = {key: one for key, one in new.items() if key != "conditions" and one != old.get(key)}
    before = {one["type"]: one for one in old["conditions"]}
    conditions = []
    for one in new["conditions"]:
        was = before.get(one["type"], {})
        parts = {key: value for key, value in one.items() if value != was.get(key)}
        if parts:
            conditions.append({**parts, "type": one["type"]})
    if conditions:
        order = [{"type": one["type"]} for one in new["conditions"]]
        changed |= {"conditions": conditions, "$setElementOrder/conditions": order}
    return changed
