"""What somebody else provides: addresses of load balancers, volumes, and devices for pods.

Amends   the Ready table: a hostname of a load balancer is enough. Without any address Services of
         that type and Ingresses are pending, as in the table and in Argo CD.
Relies   on DeviceClass, ResourceClaimTemplate and ResourceSlice having no status (cluster.py).
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from genguard.objects.fields import ABSENT
from genguard.status.checked_object import CheckedObject, Conditions, WrongTypeError, objects_of
from genguard.status.kind_rule import NOTHING_BLOCKS, KindResult, KindRule, KindRules
from genguard.status.view import Blocks, Reason, short_word

_INGRESS: Final = "status.loadBalancer.ingress"
_RESIZES: Final = ("Resizing", "FileSystemResizePending", "ModifyingVolume")
_ERRORS: Final = ("ControllerResizeError", "NodeResizeError", "ModifyVolumeError")
_WAITS: Final = "no pod that uses it is scheduled, or no device fits"


def evaluate_service(obj: CheckedObject) -> KindResult:
    """Require an address for type LoadBalancer; every other type is ready at once."""
    if obj.word("spec", "type", "ClusterIP") != "LoadBalancer":
        return NOTHING_BLOCKS
    reasons = _find_missing_address(obj)
    if not obj.word("spec", "clusterIP"):
        reasons.insert(0, Reason("spec.clusterIP", ABSENT, "an address"))
    return KindResult(reasons)


def evaluate_ingress(obj: CheckedObject) -> KindResult:
    """Require the address that its controller publishes."""
    return KindResult(_find_missing_address(obj))


def _find_missing_address(obj: CheckedObject) -> list[Reason]:
    ingress = obj.inner("status", "loadBalancer").get("ingress")
    if not ingress and (ingress is None or isinstance(ingress, list)):
        have = ABSENT if ingress is None else short_word("")
        return [Reason(_INGRESS, have, "an ip or a hostname")]
    return [
        Reason(f"{_INGRESS}[{index}]", short_word(""), "an ip or a hostname")
        for index, item in objects_of(ingress, _INGRESS)
        if not (item.get("ip") or item.get("hostname"))
    ][:1]


def evaluate_volume_claim(obj: CheckedObject) -> KindResult:
    """Require phase Bound; a claim whose volume is Lost has failed for good."""
    phase = obj.word("status", "phase")
    if phase == "Lost":
        note = "the volume that it was bound to is gone"
        lost = Reason("status.phase", phase, "Bound", note, Blocks.READY)
        return KindResult((lost,), failed=True)
    if phase != "Bound":
        return KindResult((_phase(phase, "Bound"),))
    found = filter(None, map(obj.conditions().true, (*_RESIZES, *_ERRORS)))
    return KindResult([condition.blocking("False", Blocks.SETTLED) for condition in found])


def evaluate_volume(obj: CheckedObject) -> KindResult:
    """Require Available or Bound; Released and Failed wait for an administrator."""
    phase = obj.word("status", "phase")
    if phase in ("Available", "Bound"):
        return NOTHING_BLOCKS
    reason = _phase(phase, "Available or Bound")
    if phase in ("Released", "Failed"):
        return KindResult((reason._replace(blocks=Blocks.READY),), failed=phase == "Failed")
    return KindResult((reason,))


def _phase(phase: str, want: str) -> Reason:
    return Reason("status.phase", short_word(phase) if phase else ABSENT, want)


def evaluate_resource_claim(obj: CheckedObject) -> KindResult:
    """Require an allocation, and nothing against it from the drivers of its devices."""
    allocation = obj.inner("status", "allocation")
    if not allocation:
        return KindResult((Reason("status.allocation", ABSENT, "an allocation", _WAITS),))
    reported: dict[tuple[str, ...], tuple[str, Conditions]] = {}
    for index, device in objects_of(obj.status.get("devices"), "status.devices"):
        path = f"status.devices[{index}]"
        reported[_device(device)] = path, Conditions.of((path, device))
    reasons = [
        Reason(f"{path}.conditions[Ready]", "False", "True", short_word(ready.reason))
        for path, conditions in reported.values()
        if (ready := conditions.get("Ready")) is not None and ready.status == "False"
    ]
    results = obj.inner("status", "allocation", "devices").get("results")
    for index, result in objects_of(results, "status.allocation.devices.results"):
        at = f"status.allocation.devices.results[{index}]"
        path, conditions = reported.get(_device(result), (at, Conditions()))
        reasons += _unbound(result, at, path, conditions)
    return KindResult(reasons)


def _unbound(
    result: Mapping[str, Any], at: str, path: str, conditions: Conditions
) -> Iterator[Reason]:
    """Yield what keeps the scheduler from binding a pod to this device."""
    for name in _names(result, "bindingConditions", at):
        found = conditions.get(name)
        if found is None or found.status != "True":
            have = ABSENT if found is None else short_word(found.status)
            note = "the scheduler waits for it before it binds the pod"
            yield Reason(f"{path}.conditions[{name}]", have, "True", note, Blocks.SETTLED)
    for name in _names(result, "bindingFailureConditions", at):
        if conditions.true(name) is not None:
            note = "the scheduler takes the allocation back"
            yield Reason(f"{path}.conditions[{name}]", "True", "False", note)


def evaluate_taint_rule(obj: CheckedObject) -> KindResult:
    """Accept every rule; one that evicts is settled when no pod is left to evict."""
    if obj.inner("spec", "taint").get("effect") != "NoExecute":
        return NOTHING_BLOCKS
    found = obj.conditions().get("EvictionInProgress")
    if found is None:
        note = "the controller has not looked at it"
        path = "status.conditions[EvictionInProgress]"
        return KindResult((Reason(path, ABSENT, "False", note, Blocks.SETTLED),))
    if found.stale(obj.generation):
        return KindResult((found.stale_reason(obj.generation, Blocks.SETTLED),))
    if found.status != "False":
        return KindResult((found.blocking("False", Blocks.SETTLED),))
    return NOTHING_BLOCKS


def _device(entry: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(entry.get(key, "")) for key in ("driver", "pool", "device", "shareID"))


def _names(result: Mapping[str, Any], key: str, at: str) -> list[str]:
    """The condition types listed at `key`; raises WrongTypeError."""
    names = result.get(key) or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise WrongTypeError(f"{at}.{key}", names, "a list of texts")
    return names


RULES: Final[KindRules] = {
    ("", "PersistentVolume"): KindRule(evaluate_volume),
    ("", "PersistentVolumeClaim"): KindRule(evaluate_volume_claim),
    ("", "Service"): KindRule(evaluate_service),
    ("networking.k8s.io", "Ingress"): KindRule(evaluate_ingress),
    ("resource.k8s.io", "DeviceTaintRule"): KindRule(evaluate_taint_rule),
    ("resource.k8s.io", "ResourceClaim"): KindRule(evaluate_resource_claim),
}
