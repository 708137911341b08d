"""What is written to the status of a bound pod, and who should have written it.

Once a pod is bound to a node its kubelet is the writer of its status (KEP-5067, Other writers of
pod status). Conditions have writers of their own. Each of them should set the observedGeneration of
its condition to the generation of the pod that it has seen.

Only writes of somebody else than the kubelet are decoded here: they are rare.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from genguard.admission.review import AdmissionRequest
from genguard.detection.write import NODE_USER
from genguard.objects.fields import Fields

_SYSTEM: Final = "system:serviceaccount:kube-system:"
CONTROL_PLANE: Final = frozenset(
    {
        *(
            f"{_SYSTEM}{one}"
            for one in (
                "device-taint-eviction-controller",
                "disruption-controller",
                "node-controller",
                "pod-garbage-collector",
                "resource-claim-controller",
                "taint-eviction-controller",
            )
        ),
        "system:kube-controller-manager",
        "system:kube-scheduler",
    }
)
"""Those that Kubernetes allows to write pods/status: conditions, the reason NodeLost, the phase of
pods whose node is gone, claims of devices
(plugin/pkg/auth/authorizer/rbac/bootstrappolicy/controller_policy.go, policy.go)."""
_SHARED: Final = frozenset({"DisruptionTarget", "PodScheduled"})
"""Conditions that others write for a kubelet as well: whoever evicts or preempts a pod, and the
scheduler that binds it (pkg/kubelet/types/pod_status.go:PodConditionsSharedByKubelet)."""
_NOT_OF_KUBELET: Final = frozenset(
    {
        "extendedResourceClaimStatus",
        "nodeAllocatableResourceClaimStatuses",
        "nominatedNodeName",
        "resourceClaimStatuses",
    }
)
"""Fields that schedulers and the controller of resource claims write
(pkg/kubelet/status/status_manager.go:mergePodStatus)."""
_FIELDS: Final = (
    "phase", "reason", "message", "observedGeneration", "conditions", "containerStatuses",
    "initContainerStatuses", "ephemeralContainerStatuses", "startTime", "podIP", "podIPs",
    "hostIP", "hostIPs", "qosClass", "resize", "resources", "allocatedResources",
)  # fmt: skip
_KNOWN: Final = frozenset(_FIELDS)
_MOST_CONDITIONS: Final = 8
"""That are named of one write."""
_CONDITIONS: Final = "conditions"


class PodStatusChange(NamedTuple):
    """What a write changes that its writer should not, or not so; JSON Pointers.

    foreign     fields that belong to the kubelet
    unobserved  observedGeneration of conditions that were set without it
    """

    foreign: tuple[str, ...] = ()
    unobserved: tuple[str, ...] = ()


NOTHING_FOREIGN: Final = PodStatusChange()


class _Gate(msgspec.Struct, rename="camel", gc=False):
    condition_type: str = ""


class _Spec(msgspec.Struct, rename="camel", gc=False):
    node_name: str = ""
    readiness_gates: list[_Gate] | None = None


_spec_decoder: Final = msgspec.json.Decoder(_Spec | None)
_status_decoder: Final = msgspec.json.Decoder(Fields | None)
_conditions_decoder: Final = msgspec.json.Decoder(list[dict[str, Any]] | None)
_number_decoder: Final = msgspec.json.Decoder(int | None)


def find_pod_status_change(request: AdmissionRequest) -> PodStatusChange:
    """Return what is wrong about who writes a pod's status, and how; of other writes nothing.

    Nothing of a malformed pod either: the API server stores none.
    """
    try:
        return _find(request)
    except msgspec.ValidationError:
        return NOTHING_FOREIGN


def _find(request: AdmissionRequest) -> PodStatusChange:
    wire = request.wire
    old, new = request.old_object, request.object
    if wire.sub_resource != "status" or wire.resource.resource != "pods" or wire.resource.group:
        return NOTHING_FOREIGN
    if old is None or new is None or old.spec is None or old.status == new.status:
        return NOTHING_FOREIGN
    user = wire.user_info.username
    # The API server keeps a kubelet to the pods of its node (plugin/pkg/admission/noderestriction),
    # and a simulated one writes those of many nodes: it is never somebody else.
    if user.startswith(NODE_USER):
        return NOTHING_FOREIGN
    spec = _spec_decoder.decode(old.spec) or _Spec()
    if not spec.node_name:
        return NOTHING_FOREIGN
    before, after = _fields(old.status), _fields(new.status)
    changed = {key for key in {**before, **after} if before.get(key) != after.get(key)}
    conditions = list(_changed_conditions(before, after)) if _CONDITIONS in changed else []
    foreign: tuple[str, ...] = ()
    if user not in CONTROL_PLANE:
        quiet = {*_SHARED, *(one.condition_type for one in spec.readiness_gates or ())}
        if all(one.type in quiet for one in conditions):
            changed.discard(_CONDITIONS)
        foreign = tuple(_pointers(changed - _NOT_OF_KUBELET))
    unobserved: tuple[str, ...] = ()
    if _is_tracked(before):
        lacking = [one for one in conditions if one.place is not None and not one.is_observed]
        unobserved = tuple(
            f"/status/conditions/{one.place}/observedGeneration"
            for one in lacking[:_MOST_CONDITIONS]
        )
    return PodStatusChange(foreign, unobserved)


class _Changed(NamedTuple):
    """A condition that differs; `place` is None where it was removed."""

    type: str
    place: int | None
    is_observed: bool


def _fields(status: msgspec.Raw | None) -> Fields:
    return {} if status is None else _status_decoder.decode(status) or {}


def _is_tracked(before: Fields) -> bool:
    """Whether the kubelet of the pod has set observedGeneration: then others should, too."""
    raw = before.get("observedGeneration")
    return raw is not None and bool(_number_decoder.decode(raw))


def _changed_conditions(before: Fields, after: Fields) -> Iterator[_Changed]:
    was = {one.get("type"): one for one in _conditions(before)}
    there = set()
    for index, one in enumerate(_conditions(after)):
        name = one.get("type")
        there.add(name)
        if was.get(name) != one:
            yield _Changed(str(name), index, bool(one.get("observedGeneration")))
    for name in was:
        if name not in there:
            yield _Changed(str(name), None, is_observed=True)


def _conditions(status: Fields) -> list[dict[str, Any]]:
    raw = status.get(_CONDITIONS)
    return [] if raw is None else _conditions_decoder.decode(raw) or []


def _pointers(changed: set[str]) -> Iterator[str]:
    """Yield the fields of a PodStatus in a fixed order; any other key counts as status."""
    for key in _FIELDS:
        if key in changed:
            yield f"/status/{key}"
    if changed - _KNOWN:
        yield "/status"
