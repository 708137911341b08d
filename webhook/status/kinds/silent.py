"""Kinds whose status nobody writes: what is stored is in force."""

from typing import Final

from webhook.status.judgement import GOOD, Judgement, Kind
from webhook.status.subject import Subject


def judge_silent(subject: Subject) -> Judgement:  # noqa: ARG001 - every judge takes the object
    """Ready and settled as soon as it is stored.

    Ready    as soon as it is stored
    Settled  the same
    """
    return GOOD


SILENT: Final = Kind(judge_silent, silent=True, by_spec=False)
"""No type of these has a status in k8s.io/api v0.36, or no controller writes it."""
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
