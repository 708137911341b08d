"""ResourceClaims and DeviceTaintRules: devices that pods ask for, and taints that evict from them.

Reads    status.allocation, its bindingConditions and bindingFailureConditions;
         status.devices[].conditions; condition EvictionInProgress of a DeviceTaintRule.
Relies   on DeviceClass, ResourceClaimTemplate and ResourceSlice having no status (silent.py).
Source   resource.k8s.io/v1 types.go: ResourceClaimStatus, DeviceRequestAllocationResult,
         AllocatedDeviceStatus, DeviceTaintRuleStatus; KEP-4817 (Ready of a device), KEP-5007
         (binding conditions), KEP-5055 (taints); pkg/controller/devicetainteviction.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from genguard.objects.fields import ABSENT
from genguard.status.checked_object import (
    FALSE,
    TRUE,
    CheckedObject,
    Conditions,
    WrongTypeError,
    index_conditions,
    read_conditions,
)
from genguard.status.kind_rule import NOTHING_BLOCKS, KindRule, KindRules, KindVerdict
from genguard.status.view import Blocks, Reason, short_word

_EVICTING: Final = "EvictionInProgress"
_WAITS: Final = "no pod that uses it is scheduled, or no device fits"


def evaluate_claim(obj: CheckedObject) -> KindVerdict:
    """Require an allocation, and nothing against it from the drivers of its devices.

    Ready    status.allocation is there, and no device in status.devices has Ready=False
    Settled  the same, each of the bindingConditions of its devices is True, and none of their
             bindingFailureConditions
    """
    allocation = obj.inner("status", "allocation")
    if not allocation:
        return KindVerdict((Reason("status.allocation", ABSENT, "an allocation", _WAITS),))
    reported = dict(_reported(obj))
    reasons = [
        Reason(f"{path}.conditions[Ready]", FALSE, TRUE, short_word(ready.reason))
        for path, conditions in reported.values()
        if (ready := conditions.get("Ready")) is not None and ready.status == FALSE
    ]
    results = obj.inner("status", "allocation", "devices").get("results")
    for index, result in _objects(results, "status.allocation.devices.results"):
        at = f"status.allocation.devices.results[{index}]"
        path, conditions = reported.get(_device(result), (at, Conditions({})))
        reasons += _unbound(result, at, path, conditions)
    return KindVerdict(reasons)


def _unbound(
    result: Mapping[str, Any], at: str, path: str, conditions: Conditions
) -> Iterator[Reason]:
    """Yield what keeps the scheduler from binding a pod to this device."""
    for name in _names(result, "bindingConditions", at):
        found = conditions.get(name)
        if found is None or found.status != TRUE:
            have = ABSENT if found is None else short_word(found.status)
            note = "the scheduler waits for it before it binds the pod"
            yield Reason(f"{path}.conditions[{name}]", have, TRUE, note, Blocks.SETTLED)
    for name in _names(result, "bindingFailureConditions", at):
        if conditions.true(name) is not None:
            note = "the scheduler takes the allocation back"
            yield Reason(f"{path}.conditions[{name}]", TRUE, FALSE, note)


def evaluate_taint_rule(obj: CheckedObject) -> KindVerdict:
    """Accept every rule; one that evicts is settled when no pod is left to evict.

    Ready    as soon as it is stored: the scheduler reads its taint
    Settled  with effect NoExecute when EvictionInProgress is False for this generation; with any
             other effect as soon as it is stored
    """
    taint = obj.inner("spec", "taint")
    if taint.get("effect") != "NoExecute":
        return NOTHING_BLOCKS
    found = read_conditions(obj).get(_EVICTING)
    if found is None:
        note = "the controller has not looked at it"
        path = f"status.conditions[{_EVICTING}]"
        return KindVerdict((Reason(path, ABSENT, FALSE, note, Blocks.SETTLED),))
    if found.stale(obj.generation):
        return KindVerdict((found.stale_reason(obj.generation, Blocks.SETTLED),))
    if found.status != FALSE:
        return KindVerdict((found.blocking(FALSE, Blocks.SETTLED),))
    return NOTHING_BLOCKS


def _reported(obj: CheckedObject) -> Iterator[tuple[tuple[Any, ...], tuple[str, Conditions]]]:
    """Yield by device where its driver reports on it, and the conditions that it reports."""
    for index, device in _objects(obj.status.get("devices"), "status.devices"):
        path = f"status.devices[{index}]"
        conditions = index_conditions((path, device))
        yield _device(device), (path, conditions)


def _device(entry: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(entry.get(key, "")) for key in ("driver", "pool", "device", "shareID"))


def _names(result: Mapping[str, Any], key: str, at: str) -> list[str]:
    """The condition types listed at `key`; raises WrongTypeError."""
    names = result.get(key)
    if names is None:
        return []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise WrongTypeError(f"{at}.{key}", names, "a list of texts")
    return names


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
    ("resource.k8s.io", "DeviceTaintRule"): KindRule(evaluate_taint_rule),
    ("resource.k8s.io", "ResourceClaim"): KindRule(evaluate_claim),
}
