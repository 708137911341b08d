"""A webhook that runs in the cluster and clears observedGeneration, where and how it is told."""

import base64
import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from certs import PairSnapshot, issue, service_names
from tests.kind.cluster import Cluster

NAMESPACE = "old-operator"
CONFIGURATION = "mmm-old-operator"
"""Sorts between genguard's two mutating registrations."""
WEBHOOK = "status.example.org"
ACTOR = f"{CONFIGURATION}/{WEBHOOK}"
"""What genguard should call it."""
_NAME = "culprit"
_SPREAD_SECONDS = 3.0  # each API server goes by its own copy of the registrations

CONTROL_PLANE = {
    "nodeSelector": {"node-role.kubernetes.io/control-plane": ""},
    "tolerations": [{"operator": "Exists", "effect": "NoSchedule"}],
}
"""Where a pod runs that must outlive the workers, which tests drain and kill."""


class Culprit:
    """One pod behind a Service, on the control plane's node."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @cached_property
    def _pair(self) -> PairSnapshot:
        return issue(names=service_names(_NAME, NAMESPACE), at=datetime.now(UTC))

    def run(self) -> None:
        """Start it, and wait until it is ready."""
        metadata = {"name": _NAME, "namespace": NAMESPACE}
        labels = {"app": _NAME}
        # Another certificate is another pod: a running one goes by what it has loaded.
        annotations = {"digest": hashlib.sha256(self._pair.cert_pem).hexdigest()}
        container = {
            "name": _NAME,
            "image": "genguard-test/culprit:1",
            "imagePullPolicy": "IfNotPresent",
            "readinessProbe": {"tcpSocket": {"port": 8443}, "periodSeconds": 1},
            "volumeMounts": [{"name": "tls", "mountPath": "/tls", "readOnly": True}],
        }
        pod = {
            **CONTROL_PLANE,
            "containers": [container],
            "volumes": [{"name": "tls", "secret": {"secretName": _NAME}}],
        }
        data = {"tls.crt": _base64(self._pair.cert_pem), "tls.key": _base64(self._pair.key_pem)}
        self._cluster.namespace(NAMESPACE)
        self._cluster.apply(
            {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data},
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": metadata,
                "spec": {"selector": labels, "ports": [{"port": 443, "targetPort": 8443}]},
            },
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": metadata,
                "spec": {
                    "selector": {"matchLabels": labels},
                    "template": {
                        "metadata": {"labels": labels, "annotations": annotations},
                        "spec": pod,
                    },
                },
            },
        )
        self._cluster.rolled_out(NAMESPACE, _NAME)

    @contextmanager
    def clearing(self, resource: str, *namespaces: str, how: str = "zero") -> Iterator[None]:
        """Registered for updates of a status: `deployments/status` of apps, or `pods/status`."""
        self._cluster.apply(self._registration(resource, namespaces, how))
        time.sleep(_SPREAD_SECONDS)
        try:
            yield
        finally:
            words = ("delete", "mutatingwebhookconfiguration", CONFIGURATION)
            self._cluster.kubectl(*words, "--ignore-not-found")

    def _registration(self, resource: str, namespaces: tuple[str, ...], how: str) -> dict[str, Any]:
        rule = {
            "apiGroups": ["" if resource.startswith("pods") else "apps"],
            "apiVersions": ["v1"],
            "resources": [resource],
            "operations": ["UPDATE"],
        }
        selected = {"key": "kubernetes.io/metadata.name", "operator": "In"}
        webhook = {
            "name": WEBHOOK,
            "rules": [rule],
            "clientConfig": {
                "service": {
                    "name": _NAME,
                    "namespace": NAMESPACE,
                    "path": f"/{how}-observed-generation",
                },
                "caBundle": _base64(self._pair.ca_pem or b""),
            },
            "namespaceSelector": {"matchExpressions": [{**selected, "values": list(namespaces)}]},
            "failurePolicy": "Fail",  # a write that it has not spoilt would prove nothing
            "timeoutSeconds": 10,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": CONFIGURATION},
            "webhooks": [webhook],
        }


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
