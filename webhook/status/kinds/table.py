"""Which file judges which kind, by group and kind: Knative's Service is not the built-in one."""

from typing import Final

from webhook.status.judgement import Kind
from webhook.status.kinds.autoscaler import judge_autoscaler
from webhook.status.kinds.cluster import (
    judge_api_service,
    judge_definition,
    judge_namespace,
    judge_node,
)
from webhook.status.kinds.daemon_set import judge_daemon_set
from webhook.status.kinds.deployment import judge_deployment
from webhook.status.kinds.disruption_budget import judge_disruption_budget
from webhook.status.kinds.generic import judge_generic
from webhook.status.kinds.job import judge_cron_job, judge_job
from webhook.status.kinds.load_balancer import judge_ingress, judge_service
from webhook.status.kinds.pod import judge_pod
from webhook.status.kinds.replica_set import judge_replica_set, judge_replication_controller
from webhook.status.kinds.silent import SILENT, SILENT_KINDS
from webhook.status.kinds.stateful_set import judge_stateful_set
from webhook.status.kinds.volume import judge_claim, judge_volume

GENERIC: Final = Kind(judge_generic, by_spec=False)
_BUILT_IN: Final = {
    ("", "Namespace"): Kind(judge_namespace),
    ("", "Node"): Kind(judge_node),
    ("", "PersistentVolume"): Kind(judge_volume),
    ("", "PersistentVolumeClaim"): Kind(judge_claim),
    ("", "Pod"): Kind(judge_pod),
    ("", "ReplicationController"): Kind(judge_replication_controller, observes=True, counts=True),
    ("", "Service"): Kind(judge_service),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): Kind(judge_definition),
    ("apiregistration.k8s.io", "APIService"): Kind(judge_api_service),
    ("apps", "DaemonSet"): Kind(judge_daemon_set, observes=True, counts=True),
    ("apps", "Deployment"): Kind(judge_deployment, observes=True, counts=True, drains=True),
    ("apps", "ReplicaSet"): Kind(judge_replica_set, observes=True, counts=True, drains=True),
    ("apps", "StatefulSet"): Kind(judge_stateful_set, observes=True, counts=True),
    ("autoscaling", "HorizontalPodAutoscaler"): Kind(judge_autoscaler),
    ("batch", "CronJob"): Kind(judge_cron_job, silent=True),
    ("batch", "Job"): Kind(judge_job),
    ("networking.k8s.io", "Ingress"): Kind(judge_ingress),
    ("policy", "PodDisruptionBudget"): Kind(judge_disruption_budget, observes=True),
    **{(group, kind): SILENT for group, kinds in SILENT_KINDS.items() for kind in kinds},
}
_MOVED: Final = {
    "DaemonSet": "apps",
    "Deployment": "apps",
    "ReplicaSet": "apps",
    "Ingress": "networking.k8s.io",
}
"""What was in extensions/v1beta1 until Kubernetes 1.22; kubectl and kstatus know it there still."""
KINDS: Final = _BUILT_IN | {
    ("extensions", kind): _BUILT_IN[group, kind] for kind, group in _MOVED.items()
}
"""Every (group, kind) that has a rule of its own."""


def kind_of(group: str, kind: str) -> Kind:
    """How a kind is judged; by generic conditions when it has no file of its own."""
    return KINDS.get((group, kind), GENERIC)
