"""What somebody else provides: addresses of load balancers, volumes, and devices for pods.

Amends   the Ready table: a hostname of a load balancer is enough. Without any address Services of
         that type and Ingresses are pending, as in the table and in Argo CD.
Relies   on DeviceClass, ResourceClaimTemplate and ResourceSlice having no status (cluster.py).
"""

from collections.abc import Iterator
from typing import Any, Final

from genguard.objects.fields import ABSENT
from genguard.status.checked_object import (
    FALSE,
    TRUE,
    CheckedObject,
    WrongTypeError,
    index_conditions,
    read_conditions,
)
from genguard.status.kind_rule import NOTHING_BLOCKS, KindRule, KindRules, KindVerdict
from genguard.status.view import Blocks, Reason, short_word

_INGRESS: Final = "status.loadBalancer.ingress"
_RESIZES: Final = ("Resizing", "FileSystemResizePending", "ModifyingVolume")
_ERRORS: Final = ("ControllerResizeError", "NodeResizeError", "ModifyVolumeError")
_WAITS: Final = "no pod that uses it is scheduled, or no device fits"


def evaluate_service(obj: CheckedObject) -> KindVerdict:
    """Require an address for type LoadBalancer; every other type is ready at once.

    Ready    as soon as it is stored; type LoadBalancer when status.loadBalancer.ingress has an
             address
    Settled  the same
    Source   core/v1 and networking.k8s.io/v1 types.go: LoadBalancerIngress,
             IngressLoadBalancerIngress.
    """
    if obj.word("spec", "type", "ClusterIP") != "LoadBalancer":
        return NOTHING_BLOCKS
    reasons = _find_missing_address(obj)
    if not obj.word("spec", "clusterIP"):
        reasons.insert(0, Reason("spec.clusterIP", ABSENT, "an address"))
    return KindVerdict(reasons)


def evaluate_ingress(obj: CheckedObject) -> KindVerdict:
    """Require the address that its controller publishes.

    Ready    status.loadBalancer.ingress has an ip or a hostname
    Settled  the same
    Source   core/v1 and networking.k8s.io/v1 types.go: LoadBalancerIngress,
             IngressLoadBalancerIngress.
    """
    return KindVerdict(_find_missing_address(obj))


def _find_missing_address(obj: CheckedObject) -> list[Reason]:
    ingress = obj.inner("status", "loadBalancer").get("ingress")
    if not ingress and (ingress is None or isinstance(ingress, list)):
        have = ABSENT if ingress is None else short_word("")
        return [Reason(_INGRESS, have, "an ip or a hostname")]
    return [
        Reason(f"{_INGRESS}[{index}]", short_word(""), "an ip or a hostname")
        for index, item in _objects(ingress, _INGRESS)
        if not (item.get("ip") or item.get("hostname"))
    ][:1]


def evaluate_volume_claim(obj: CheckedObject) -> KindVerdict:
    """Require phase Bound; a claim whose volume is Lost has failed for good.

    Ready    status.phase is Bound
    Settled  the same without a resize or modification in progress; or Lost
    Source   kubernetes pkg/controller/volume/persistentvolume/pv_controller.go; core/v1 types.go:
             PersistentVolumeClaimConditionType.
    """
    phase = obj.word("status", "phase")
    if phase == "Lost":
        note = "the volume that it was bound to is gone"
        lost = Reason("status.phase", phase, "Bound", note, Blocks.READY)
        return KindVerdict((lost,), failed=True)
    if phase != "Bound":
        return KindVerdict((_phase(phase, "Bound"),))
    found = map(read_conditions(obj).true, (*_RESIZES, *_ERRORS))
    return KindVerdict([one.blocking(FALSE, Blocks.SETTLED) for one in found if one is not None])


def evaluate_volume(obj: CheckedObject) -> KindVerdict:
    """Require Available or Bound; Released and Failed wait for an administrator.

    Ready    status.phase is Available or Bound
    Settled  the same, Released or Failed
    Source   kubernetes pkg/controller/volume/persistentvolume/pv_controller.go; core/v1 types.go:
             PersistentVolumeClaimConditionType.
    """
    phase = obj.word("status", "phase")
    if phase in ("Available", "Bound"):
        return NOTHING_BLOCKS
    reason = _phase(phase, "Available or Bound")
    if phase in ("Released", "Failed"):
        return KindVerdict((reason._replace(blocks=Blocks.READY),), failed=phase == "Failed")
    return KindVerdict((reason,))


def _phase(phase: str, want: str) -> Reason:
    return Reason("status.phase", short_word(phase) if phase else ABSENT, want)


def evaluate_resource_claim(obj: CheckedObject) -> KindVerdict:
    """Require an allocation, and nothing against it from the drivers of its devices.

    Ready    status.allocation is there, and no device in status.devices has Ready=False
    Settled  the same
    Source   resource.k8s.io/v1 types.go: ResourceClaimStatus, AllocatedDeviceStatus; KEP-4817
             (Ready of a device).
    """
    if not obj.inner("status", "allocation"):
        return KindVerdict((Reason("status.allocation", ABSENT, "an allocation", _WAITS),))
    reasons = []
    for index, device in _objects(obj.status.get("devices"), "status.devices"):
        path = f"status.devices[{index}]"
        ready = index_conditions((path, device)).get("Ready")
        if ready is not None and ready.status == FALSE:
            reasons.append(ready.blocking(TRUE))
    return KindVerdict(reasons)


def _objects(items: Any, at: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a list with their index; raises WrongTypeError."""
    if items is None:
        return
    if not isinstance(items, list):
        raise WrongTypeError(at, items, "a list")
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            raise WrongTypeError(f"{at}[{index}]", item, "an object")
        yield index, item


RULES: Final[KindRules] = {
    ("", "PersistentVolume"): KindRule(evaluate_volume),
    ("", "PersistentVolumeClaim"): KindRule(evaluate_volume_claim),
    ("", "Service"): KindRule(evaluate_service),
    ("networking.k8s.io", "Ingress"): KindRule(evaluate_ingress),
    ("resource.k8s.io", "ResourceClaim"): KindRule(evaluate_resource_claim),
}
