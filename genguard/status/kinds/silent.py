"""Kinds whose status no controller writes: the object is in force as soon as it is stored.

Source   k8s.io/api v0.36: these types have no status, or no controller writes it.
"""

from typing import Final

from genguard.status.checked_object import CheckedObject
from genguard.status.kind_rule import NOTHING_BLOCKS, KindRule, KindRules, KindVerdict


def evaluate_silent(obj: CheckedObject) -> KindVerdict:  # noqa: ARG001 - the interface of a rule
    """Accept every object: there is no status to read.

    Ready    as soon as it is stored
    Settled  the same
    """
    return NOTHING_BLOCKS


SILENT_KINDS: Final = {
    "": (
        "ConfigMap",
        "Endpoints",
        "Event",
        "LimitRange",
        "PodTemplate",
        "Secret",
        "ServiceAccount",
    ),
    "admissionregistration.k8s.io": (
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
    ),
    "apps": ("ControllerRevision",),
    "coordination.k8s.io": ("Lease", "LeaseCandidate"),
    "discovery.k8s.io": ("EndpointSlice",),
    "events.k8s.io": ("Event",),
    "networking.k8s.io": ("IngressClass", "IPAddress", "NetworkPolicy"),
    "node.k8s.io": ("RuntimeClass",),
    "rbac.authorization.k8s.io": ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    "resource.k8s.io": ("DeviceClass", "ResourceClaimTemplate", "ResourceSlice"),
    "scheduling.k8s.io": ("PriorityClass",),
    "storage.k8s.io": (
        "CSIDriver",
        "CSINode",
        "CSIStorageCapacity",
        "StorageClass",
        "VolumeAttributesClass",
    ),
}
"""Kinds by group."""
_SILENT: Final = KindRule(evaluate_silent, status_unwritten=True, needs_spec=False)
RULES: Final[KindRules] = {
    (group, kind): _SILENT for group, kinds in SILENT_KINDS.items() for kind in kinds
}
