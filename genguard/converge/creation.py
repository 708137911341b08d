"""Creations to send as dry runs, and what webhooks and policies take from them.

Many webhooks are called for creations alone, so no update of the object shows what they do.
"""

from collections.abc import Mapping
from typing import Any, Final

from genguard.blame.places import Item, Place, show
from genguard.converge.chain import Document
from genguard.converge.fields import overlay, overwritten
from genguard.objects.fields import ABSENT, get
from genguard.objects.metadata import SET_BY_SERVER
from genguard.objects.served import Served

PODS: Final = Served(
    "", "v1", "pods", "pod", "Pod", ("po",), namespaced=True, has_status=True, watchable=True
)
_TEMPLATE: Final[Place] = ("spec", "template")
TEMPLATES: Final[Mapping[str, Place]] = {
    **dict.fromkeys(("DaemonSet", "Deployment", "Job", "ReplicaSet", "StatefulSet"), _TEMPLATE),
    "CronJob": ("spec", "jobTemplate", *_TEMPLATE),
}
"""Where a kind has the template of its pods."""


def pod_of(workload: Mapping[str, Any]) -> Document:
    """Return a pod as the controller of a workload creates it; {} where there is no template."""
    template = get(workload, *TEMPLATES.get(workload.get("kind", ""), ("",)))
    spec, claims = get(template, "spec"), get(workload, "spec", "volumeClaimTemplates")
    if not isinstance(spec, dict):
        return {}
    given = {key: get(template, "metadata", key) for key in ("labels", "annotations")}
    metadata = {key: one for key, one in given.items() if one is not ABSENT}
    metadata["generateName"] = f"{workload['metadata']['name']}-"
    if isinstance(claims, list):
        names = [one["metadata"]["name"] for one in claims]
        volumes = [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in names]
        spec = {**spec, "volumes": [*(spec.get("volumes") or ()), *volumes]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def copy_of(stored: Document, owner: Mapping[str, Any]) -> Document:
    """Return what creates another such object, with all that the template of an owner asks for."""
    pod = pod_of(owner) if stored.get("kind") == PODS.kind else {}
    made: Document = overlay({key: stored[key] for key in stored if key != "status"}, pod)
    kept = {key: one for key, one in made["metadata"].items() if key not in SET_BY_SERVER}
    kept["generateName"] = made["metadata"].get("generateName") or f"{stored['metadata']['name']}-"
    return {**made, "metadata": kept}


def taken(sent: Document, made: Document) -> dict[str, str]:
    """Return which fields of a creation are not kept, as `spec.initContainers[*].restartPolicy`."""
    lost = [one for one in overwritten(sent, made) if not one.is_omitted]
    return {_of_any(one.place): "removed" if one.after is ABSENT else "changed" for one in lost}


def _of_any(place: Place) -> str:
    return show(tuple(Item("*") if isinstance(step, Item) else step for step in place))
